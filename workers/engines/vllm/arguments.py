"""Our bounds of an engine in vLLM's words. Pure."""

from __future__ import annotations

from typing import Any

from workers.engines.base import LOGPROBS_MAX, EngineSettings

MEGABYTE = 1_000_000
CPU_BLOCK_TOKENS = 32  # vLLM's attention on CPUs takes blocks of this, or a multiple


def engine_arguments(settings: EngineSettings, *, context_tokens: int, gpu: bool) -> dict[str, Any]:
    """The arguments of vLLM's `EngineArgs`."""
    path = str(settings.model_path)
    return {
        "model": path,
        "tokenizer": path,
        "structured_outputs_config": {"backend": "guidance"},  # reads our grammars, with llguidance
        "max_model_len": context_tokens,
        "max_num_seqs": settings.slots,
        "max_logprobs": LOGPROBS_MAX,
        "enable_prefix_caching": True,
        "distributed_executor_backend": "uni",
        "disable_log_stats": True,
        "seed": 0,
        "load_format": "safetensors",  # never unpickled
        **(_on_gpu(settings) if gpu else _on_cpu(settings)),
    }


def _on_gpu(settings: EngineSettings) -> dict[str, Any]:
    """The arguments on a GPU. Prefill is fast there, so vLLM decides how much of it fits in a
    step."""
    return {
        "dtype": settings.dtype,
        "gpu_memory_utilization": settings.gpu_memory_share,
        "enable_sleep_mode": True,
    }


def _on_cpu(settings: EngineSettings) -> dict[str, Any]:
    """The arguments on a CPU. Nothing is compiled: that would need a C++ compiler, and take longer
    than the rest of the start."""
    return {
        "dtype": "float32" if settings.dtype == "auto" else settings.dtype,
        "kv_cache_memory_bytes": settings.kv_cache_mb * MEGABYTE,
        "block_size": -(-settings.block_tokens // CPU_BLOCK_TOKENS) * CPU_BLOCK_TOKENS,
        "max_num_batched_tokens": settings.slots + settings.prefill_tokens_max,
        "enforce_eager": True,
    }
