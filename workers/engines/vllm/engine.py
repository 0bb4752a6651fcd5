"""vLLM behind our own thread and streams: a `ContinuousEngine` whose steps are vLLM's. Its engine
core runs in this process. So it starts once, ends with the replica however that ends, and hears
between two steps that a reader has left. The thread that loads the model imports vLLM."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from workers.engines.base import CheckpointUnsupported, EngineSettings
from workers.engines.continuous.engine import ContinuousEngine, Loaded

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # measured: a quarter of the start, half the memory
    "VLLM_NO_USAGE_STATS": "1",  # tells nobody what runs here
    "VLLM_CONFIGURE_LOGGING": "0",  # it would take the handlers of Ray Serve away
    "VLLM_HOST_IP": "127.0.0.1",  # where its one worker meets itself
    "GLOO_SOCKET_IFNAME": "lo",
}


class VllmEngine(ContinuousEngine):
    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings, load=load_vllm)


def load_vllm(settings: EngineSettings) -> Loaded:
    os.environ.update(ENVIRONMENT)
    import torch
    from transformers import AutoConfig

    from workers.engines.continuous.checkpoint import (
        context_tokens,
        decoders,
        eos_token_ids,
        tokenizer_source,
    )
    from workers.engines.continuous.sequence import RunningSequence
    from workers.engines.guides import Guides
    from workers.engines.vllm.arguments import engine_arguments
    from workers.engines.vllm.batch import VllmBatch, resumable
    from workers.engines.vllm.draws import SeededDraws
    from workers.engines.vllm.sleeping import NoSleep, VllmSleep

    path = settings.model_path
    if not (path / "config.json").is_file():
        raise CheckpointUnsupported(f"{path} holds no config.json: it is not a checkpoint folder")
    config = AutoConfig.from_pretrained(path, local_files_only=True).get_text_config()
    context = min(settings.context_tokens, context_tokens(config))
    torch.set_num_threads(settings.threads)
    gpu = torch.cuda.is_available()
    arguments = engine_arguments(settings, context_tokens=context, gpu=gpu)
    llm = _llm(arguments if gpu else arguments | {"logits_processors": [SeededDraws]})
    decode, raw = decoders(path)
    ends = eos_token_ids(_generation_config(path, config), config)
    return Loaded(
        batch=VllmBatch(llm, context_tokens=context, eos_token_ids=ends, draws=not gpu),
        vocabulary=config.vocab_size,
        sequence=partial(
            RunningSequence,
            context_tokens=context,
            eos_token_ids=ends,
            decode=decode,
            raw=raw,
        ),
        guides=Guides(
            partial(tokenizer_source, path),
            vocabulary=config.vocab_size,
            eos_token_ids=ends,
            spells=False,
        ),
        resumable=partial(resumable, draws=not gpu),
        own_sleep=VllmSleep(llm, level=settings.sleep_level) if gpu else NoSleep(llm),
    )


def _generation_config(path: Path, config: Any) -> Any:
    """The folder's generation configuration, else the model's own, as transformers takes it when it
    loads a model."""
    from transformers import GenerationConfig

    if (path / "generation_config.json").is_file():
        return GenerationConfig.from_pretrained(path, local_files_only=True)
    return GenerationConfig.from_model_config(config)


def _llm(arguments: dict[str, Any]) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    return LLMEngine.from_engine_args(EngineArgs(**arguments))
