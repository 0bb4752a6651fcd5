"""What vLLM is told; needs no vLLM."""

from pathlib import Path

import pytest

from workers.engines.base import EngineSettings
from workers.engines.vllm.arguments import engine_arguments

SETTINGS = EngineSettings(Path("/models/m"), slots=6, block_tokens=40, kv_cache_mb=300)


def test_a_cpu_computes_in_float32_within_the_memory_it_was_given() -> None:
    told = engine_arguments(SETTINGS, context_tokens=128, gpu=False)
    assert told["dtype"] == "float32"
    assert told["kv_cache_memory_bytes"] == 300_000_000
    assert told["enforce_eager"] is True


def test_a_block_on_a_cpu_is_one_that_vllm_can_compute_with() -> None:
    assert engine_arguments(SETTINGS, context_tokens=128, gpu=False)["block_size"] == 64


def test_a_gpu_keeps_the_checkpoints_own_dtype_and_its_share_of_memory() -> None:
    told = engine_arguments(SETTINGS, context_tokens=128, gpu=True)
    assert (told["dtype"], told["gpu_memory_utilization"]) == ("auto", 0.9)
    assert not {"enforce_eager", "kv_cache_memory_bytes", "block_size"} & set(told)


@pytest.mark.parametrize("gpu", [True, False])
def test_bounds_are_the_pools_and_text_is_ours_everywhere(gpu: bool) -> None:
    told = engine_arguments(SETTINGS, context_tokens=128, gpu=gpu)
    assert (told["max_model_len"], told["max_num_seqs"]) == (128, 6)
    assert told["structured_outputs_config"] == {"backend": "guidance"}
    assert told["enable_prefix_caching"]
