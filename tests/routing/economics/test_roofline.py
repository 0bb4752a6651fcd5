"""The ceilings: laws for every model and part, then figures that can be checked by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.economics.roofline import (
    Roofline,
    UnknownHardware,
    kv_bytes_per_token,
    memory_of,
    roofline,
    usd_per_mtok,
    weights_bytes,
)
from routing.economics.shape import ModelShape, shape_of_config
from routing.hardware.catalogue import Figure, Hardware, HardwareKind, Precision, shipped

LLAMA_70B = ModelShape(70e9, 70e9, 80, 64, 8, 128, 131_072)
LLAMA_8B = ModelShape(8.03e9, 8.03e9, 32, 32, 8, 128, 131_072)
MIXTRAL = ModelShape(46.7e9, 12.9e9, 32, 32, 8, 128, 32_768, experts=8, experts_per_token=2)
PARTS = [part for part in shipped().values() if part.bandwidth_gb_s is not None]

shapes = st.sampled_from([LLAMA_70B, LLAMA_8B, MIXTRAL])
precisions = st.sampled_from([p for p in Precision if p is not Precision.FP32])
rooflines = st.builds(
    roofline, shapes, precisions, st.sampled_from(PARTS), st.sampled_from([1, 2, 4, 8])
)
batches = st.integers(1, 512)
contexts = st.integers(0, 2_000_000)
prompts = st.integers(1, 200_000)


def faster(part: Hardware, times: float) -> Hardware:
    assert part.bandwidth_gb_s is not None
    figure = Figure(part.bandwidth_gb_s.value * times, "a datasheet to come, perhaps")
    return replace(part, bandwidth_gb_s=figure)


# --- laws ----------------------------------------------------------------------------------------


@given(rooflines, batches, contexts, st.integers(0, 100), st.integers(0, 100_000))
def test_a_step_never_gets_shorter_with_batch_or_context(
    line: Roofline, batch: int, context: int, more: int, longer: int
) -> None:
    assert line.step_s(batch + more, context + longer) >= line.step_s(batch, context)


@given(rooflines, batches, contexts)
def test_no_step_is_faster_than_its_bytes_or_its_operations(
    line: Roofline, batch: int, context: int
) -> None:
    took_s = line.step_s(batch, context)
    read = (
        line.shape.params_read(batch) * line.param_bytes + kv_bytes_per_token(line.shape) * context
    )
    assert took_s >= read * line.byte_s * (1 - 1e-9)
    assert took_s >= line.token_s * batch


@given(rooflines, prompts, st.integers(0, 50_000), st.data())
def test_a_prompt_takes_longer_the_longer_it_is_and_shorter_the_more_is_cached(
    line: Roofline, prompt: int, longer: int, data: st.DataObject
) -> None:
    cached = data.draw(st.integers(0, prompt))
    assert line.prefill_s(prompt + longer, cached) >= line.prefill_s(prompt, cached)
    if line.expert_s == 0:
        less = data.draw(st.integers(0, cached))
        saved = line.prefill_s(prompt, cached) - line.kv_s * cached
        assert saved <= line.prefill_s(prompt, less) * (1 + 1e-9)


@given(shapes, precisions, st.sampled_from(PARTS), st.floats(1, 10), batches, contexts, prompts)
def test_more_bandwidth_never_makes_anything_slower(
    shape: ModelShape,
    precision: Precision,
    part: Hardware,
    times: float,
    batch: int,
    context: int,
    prompt: int,
) -> None:
    slow = roofline(shape, precision, part)
    quick = roofline(shape, precision, faster(part, times))
    assert quick.step_s(batch, context) <= slow.step_s(batch, context)
    assert quick.prefill_s(prompt) <= slow.prefill_s(prompt)


@given(rooflines, batches, prompts, st.floats(0.1, 50))
def test_a_larger_batch_never_makes_a_token_dearer(
    line: Roofline, batch: int, prompt: int, usd_h: float
) -> None:
    """As long as experts are read anyway: of a dense model."""
    if line.expert_s == 0:
        one = line.usd_per_mtok_out(usd_h, batch, batch * prompt)
        more = line.usd_per_mtok_out(usd_h, batch + 1, (batch + 1) * prompt)
        assert more <= one * (1 + 1e-9)


@given(shapes, precisions, st.sampled_from(PARTS), st.integers(1, 72), st.integers(0, 200_000))
def test_the_gpus_that_are_asked_for_hold_it_and_one_less_does_not(
    shape: ModelShape, precision: Precision, part: Hardware, gpus: int, context: int
) -> None:
    memory = memory_of(shape, precision, part, gpus=gpus, context_tokens=context)
    if memory.gpus_needed is None:
        assert memory.fits
        return
    assert memory.fits == (gpus >= memory.gpus_needed)
    at_least = memory_of(shape, precision, part, gpus=memory.gpus_needed, context_tokens=context)
    assert at_least.fits


@given(rooflines, prompts, st.integers(1, 4096))
def test_the_largest_batch_fits_the_cache(line: Roofline, prompt: int, answer: int) -> None:
    batch = line.largest_batch(prompt, answer)
    assert batch * (prompt + answer / 2) <= line.kv_capacity_tokens


@given(batches, contexts)
def test_a_mixture_reads_no_more_than_all_of_its_weights(batch: int, context: int) -> None:
    assert MIXTRAL.active_params <= MIXTRAL.params_read(batch) <= MIXTRAL.params * (1 + 1e-9)


# --- figures -------------------------------------------------------------------------------------


def test_weights_are_their_count_times_their_bytes() -> None:
    gb = {p: weights_bytes(LLAMA_70B, p) / 1e9 for p in Precision}
    assert (gb[Precision.BF16], gb[Precision.INT8], gb[Precision.INT4]) == (140, 70, 35)


def test_cache_of_a_token_is_what_the_models_keep() -> None:
    assert kv_bytes_per_token(LLAMA_8B) == 131_072
    assert kv_bytes_per_token(LLAMA_70B) == 327_680


@pytest.mark.parametrize(
    ("part", "tokens_per_s"), [("l4", 18.7), ("a100", 127), ("h100", 208), ("h200", 298)]
)
def test_single_stream_of_an_8b_model_is_bandwidth_over_weights(
    part: str, tokens_per_s: float
) -> None:
    line = roofline(LLAMA_8B, Precision.BF16, shipped()[part])
    assert line.decode_tokens_per_s() == pytest.approx(tokens_per_s, rel=0.01)


def test_an_h100_turns_from_bandwidth_to_flops_at_a_batch_of_295() -> None:
    line = roofline(LLAMA_8B, Precision.BF16, shipped()["h100"])
    assert line.step_s(294, 0) == line.weights_step_s
    assert line.step_s(297, 0) > line.weights_step_s


def test_70b_in_int8_on_one_l40s_needs_two() -> None:
    memory = memory_of(LLAMA_70B, Precision.INT8, shipped()["l40s"])
    assert not memory.fits
    assert memory.words() == (
        "needs 70,000,000,000 bytes and has 43,200,000,000: 2 GPUs of this kind would hold it"
    )


def test_70b_in_fp8_leaves_an_h100_room_for_six_sequences_of_a_thousand_tokens() -> None:
    line = roofline(LLAMA_70B, Precision.FP8, shipped()["h100"])
    assert line.kv_capacity_tokens == 6103
    assert line.largest_batch(1000, 0) == 6


def test_measured_throughput_has_a_price() -> None:
    assert usd_per_mtok(30, 1500) == pytest.approx(5.5556, rel=1e-4)


def test_part_without_bandwidth_has_no_roofline() -> None:
    with pytest.raises(UnknownHardware, match="cpu"):
        roofline(LLAMA_8B, Precision.BF16, shipped()["cpu"])
    unknown = Hardware("new", "New", HardwareKind.GPU, "none")
    assert memory_of(LLAMA_8B, Precision.BF16, unknown).fits


def test_shape_is_read_from_a_checkpoint() -> None:
    """Its weights are as many as the file has: 16 bits each, behind a header."""
    folder = Path(__file__).parents[3] / "models" / "sluice-small"
    shape = shape_of_config(json.loads((folder / "config.json").read_text()))
    size = (folder / "model.safetensors").stat().st_size
    assert 2 * shape.params == pytest.approx(size, rel=0.01)
    assert (shape.layers, shape.kv_heads, shape.head_dim) == (3, 2, 32)


def test_shape_of_a_mixture_is_read_from_its_config() -> None:
    config = {
        "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32_000, "max_position_embeddings": 32_768,
        "intermediate_size": 14_336, "num_local_experts": 8, "num_experts_per_tok": 2,
    }  # fmt: skip
    shape = shape_of_config(config)
    assert shape.params == pytest.approx(46.7e9, rel=0.01)
    assert shape.active_params == pytest.approx(12.9e9, rel=0.01)
    assert shape.expert_params == pytest.approx(32 * 3 * 4096 * 14_336)


@pytest.mark.parametrize("lacking", ["hidden_size", "vocab_size", "intermediate_size"])
def test_config_without_its_sizes_is_refused(lacking: str) -> None:
    folder = Path(__file__).parents[3] / "models" / "sluice-small"
    config = json.loads((folder / "config.json").read_text())
    del config[lacking]
    with pytest.raises(ValueError, match=lacking):
        shape_of_config(config)


def test_no_model_has_more_active_weights_than_weights() -> None:
    with pytest.raises(ValueError, match="no model has this shape"):
        replace(LLAMA_8B, active_params=9e9)
    with pytest.raises(ValueError, match="experts"):
        replace(MIXTRAL, experts_per_token=9)
