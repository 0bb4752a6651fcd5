"""A simulated replica is as fast as the roofline of its GPU says, and says the same wherever a call
is cut."""

from __future__ import annotations

import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from routing.economics.roofline import roofline
from routing.hardware.catalogue import Precision, shipped
from tests.workers.engines.conftest import MODEL_PATH, Ask
from tests.workers.engines.simulated.cards import (
    ENDS,
    H100,
    LLAMA_8B,
    Card,
    alone,
    in_frames,
    request,
    small,
)
from workers.engines.base import (
    CheckpointUnsupported,
    EngineSettings,
    FinishReason,
    UnsupportedParameter,
)
from workers.engines.simulated.engine import SimulatedEngine

PARTS = st.sampled_from(["h100", "h200", "b200", "mi300x"])
PROMPTS = st.integers(1, 1800)
LENGTHS = st.integers(1, 60)
SEEDS = st.integers(-(2**63), 2**63 - 1)
TEXTS = ("a", "bee", "sea", "dune")


@given(PARTS, PROMPTS, LENGTHS, st.integers(1, 4))
def test_a_lone_call_takes_what_the_cost_model_predicts(
    part: str, prompt_tokens: int, length: int, gpus: int
) -> None:
    line = roofline(LLAMA_8B, Precision.FP16, shipped()[part], gpus)
    asked = request(prompt_tokens=prompt_tokens, tokens_max=length, ignore_eos=True)
    card = alone(asked, line)
    first_s = line.prefill_s(prompt_tokens)
    steps = [line.step_s(1, prompt_tokens + said) for said in range(1, length)]
    assert isclose(card.first_s["a"], first_s)
    assert isclose(card.ended_s["a"], first_s + sum(steps))


@given(st.lists(st.tuples(PROMPTS, LENGTHS, st.integers(0, 40)), max_size=6), PROMPTS, LENGTHS)
def test_more_load_never_makes_a_call_quicker_that_shares_nothing_with_it(
    others: list[tuple[int, int, int]], prompt_tokens: int, length: int
) -> None:
    asked = request(prompt_tokens=prompt_tokens, tokens_max=length, ignore_eos=True)
    quiet, busy = alone(asked, small(4000)), Card(small(4000))
    for number, (prompt, tokens, after) in enumerate(others):
        other = request(f"other {number}", prompt, tokens_max=tokens, ignore_eos=True)
        busy.add(with_fields(other, cache_salt=f"{number}"))
        for _ in range(after):
            busy.step() if not busy.batch.idle else None
    begun_s = busy.clock.at_s
    busy.run(asked)
    assert busy.first_s["a"] - begun_s >= quiet.first_s["a"] * (1 - 1e-9)
    assert busy.ended_s["a"] - begun_s >= quiet.ended_s["a"] * (1 - 1e-9)
    assert busy.text("a") == quiet.text("a")


@given(st.lists(st.tuples(PROMPTS, LENGTHS), min_size=1, max_size=12), st.integers(2048, 5000))
def test_no_more_is_kept_than_there_is_room_and_every_call_ends(
    calls: list[tuple[int, int]], capacity_tokens: int
) -> None:
    card = Card(small(capacity_tokens))
    for number, (prompt, tokens) in enumerate(calls):
        card.add(request(f"{number}", prompt, tokens_max=tokens, ignore_eos=True))
    while not card.batch.idle:
        card.step()
        stats = card.batch.stats()
        assert stats.kv_tokens_used <= stats.kv_tokens_total
        assert stats.kv_tokens_total + stats.cache_tokens_total == capacity_tokens
    assert {name: len(card.tokens(name)) for name in card.frames} == {
        f"{number}": tokens for number, (_, tokens) in enumerate(calls)
    }


@given(st.integers(0, 30), st.sampled_from([100, 700, 1500]))
def test_a_cancelled_call_frees_its_room(steps: int, prompt_tokens: int) -> None:
    card = Card(small(2048))
    leaving = card.add(request("leaving", prompt_tokens, tokens_max=500, ignore_eos=True))
    waiting = card.add(request("waiting", 2000, tokens_max=1))
    for _ in range(steps):
        card.step()
    assert waiting.computed == 0
    card.batch.remove(leaving)
    assert card.batch.stats().kv_tokens_used == 0
    while not card.batch.idle:
        card.step()
    assert card.ended_s.keys() == {"waiting"}
    assert card.batch.stats().kv_tokens_used == 0


@given(
    st.sampled_from(TEXTS), SEEDS, st.integers(0, 80), st.lists(st.integers(1, 9), min_size=1),
    st.sampled_from([(), (" a", "th"), ("e",)]), st.sampled_from([0.0, 1.0]),
)  # fmt: skip
def test_a_call_that_was_cut_goes_on_as_if_it_never_was(
    name: str, seed: int, cut: int, sizes: list[int], stop: tuple[str, ...], temperature: float
) -> None:
    asked = request(name, seed=seed, tokens_max=80, stop=stop, temperature=temperature)
    whole = alone(asked)
    begun = alone(asked).tokens(name)[:cut]
    last = whole.frames[name][-1]
    if len(begun) == len(whole.tokens(name)):
        return  # it had ended
    frames = in_frames(begun, sizes)
    rest = alone(with_fields(asked, answer_prefix=frames))
    ahead = rest.frames[name][0].prefix_texts
    assert begun + rest.tokens(name) == whole.tokens(name)
    assert "".join(ahead) + rest.text(name) == whole.text(name)
    end = rest.frames[name][-1]
    assert (end.usage, end.finish_reason, end.stopped_by) == (
        last.usage,
        last.finish_reason,
        last.stopped_by,
    )


@given(PROMPTS, st.integers(1, 1800))
def test_a_known_prefix_is_counted_and_only_the_rest_takes_time(known: int, asked: int) -> None:
    card = Card()
    card.run(request(prompt_tokens=known, tokens_max=1))
    begun_s = card.clock.at_s
    card.run(with_fields(request(prompt_tokens=asked, tokens_max=1), request_id="again"))
    cached = min(known, asked - 1) // 16 * 16
    usage = card.frames["again"][-1].usage
    assert (usage.input, usage.cached_input) == (asked - cached, cached)
    assert isclose(card.first_s["again"] - begun_s, H100.prefill_s(asked, cached))


def test_a_replayed_answer_is_computed_again() -> None:
    asked = request(prompt_tokens=100, tokens_max=40, ignore_eos=True)
    begun = alone(asked).tokens("a")[:30]
    rest = alone(with_fields(asked, answer_prefix=(begun,)))
    assert isclose(rest.first_s["a"], H100.prefill_s(130))


@given(st.sampled_from(TEXTS), SEEDS)
def test_without_temperature_the_seed_changes_nothing(name: str, seed: int) -> None:
    greedy = request(name, seed=seed, temperature=0)
    assert alone(greedy).text(name) == alone(with_fields(greedy, seed=7)).text(name)


def test_prompts_seeds_and_positions_each_say_something_else() -> None:
    texts = {alone(request(name, seed=seed)).text(name) for name in TEXTS for seed in range(8)}
    assert len(texts) == 32
    assert len(set(alone(request(tokens_max=60, ignore_eos=True)).tokens("a"))) > 30


SAID = """
from tests.workers.engines.simulated.cards import alone, request
print(alone(request("a", seed=5, tokens_max=200)).tokens("a"))
"""


def test_another_process_says_the_same() -> None:
    said = subprocess.run([sys.executable, "-c", SAID], check=True, capture_output=True, text=True)
    assert said.stdout == f"{alone(request('a', seed=5, tokens_max=200)).tokens('a')}\n"


def test_an_answer_ends_by_itself_and_at_its_bounds() -> None:
    own = alone(request(tokens_max=2000)).frames["a"][-1]
    assert own.finish_reason is FinishReason.STOP and own.token_ids[-1] in ENDS
    most = alone(request(tokens_max=own.position - 1)).frames["a"][-1]
    assert (most.finish_reason, most.position) == (FinishReason.LENGTH, own.position - 1)
    least = alone(request(tokens_max=2000, min_tokens=own.position + 9)).frames["a"][-1]
    assert least.position == own.position + 10  # and the token that ends it


def test_shares_of_the_replica_are_the_time_that_passed() -> None:
    card = Card()
    sequences = [card.add(request(name, 300)) for name in TEXTS]
    while not card.batch.idle:
        card.step()
    shared_us = sum(sequence.busy_us for sequence in sequences)
    assert shared_us == card.batch.stats().busy_us_total
    assert card.clock.at_s * 1e6 - 100 < shared_us <= card.clock.at_s * 1e6


def test_a_card_without_room_for_one_context_is_refused_in_tokens() -> None:
    with pytest.raises(CheckpointUnsupported, match=r"keeps 2047 tokens.*one context has 2048"):
        Card(small(2047))


@pytest.mark.asyncio
async def test_the_engine_refuses_what_only_probabilities_can_answer(ask: Ask) -> None:
    fast = replace(H100, weights_step_s=0.0, kv_s=0.0, token_s=0.0, attention_s=0.0, byte_s=0.0)
    engine = SimulatedEngine(EngineSettings(MODEL_PATH, context_tokens=512, roofline=fast))
    await engine.start()
    try:
        for field, value in {
            "logprobs": 0,
            "prompt_logprobs": 0,
            "logit_bias": {3: 1.0},
            "presence_penalty": 0.5,
            "repetition_penalty": 1.1,
        }.items():
            with pytest.raises(UnsupportedParameter, match=field) as refused:
                engine.generate(ask("hello", **{field: value}))
            assert refused.value.param == field
        async with aclosing(engine.generate(ask("hello", temperature=1, top_p=0.5))) as stream:
            frames = [frame async for frame in stream]
        assert frames[-1].position == 24
    finally:
        await engine.stop()


@pytest.mark.asyncio
async def test_the_engine_starts_only_on_a_named_card() -> None:
    engine = SimulatedEngine(EngineSettings(MODEL_PATH))
    with pytest.raises(CheckpointUnsupported, match="no GPU is named"):
        await engine.start()
