"""Opens an ordinary Hugging Face checkpoint folder. Refuses a checkpoint that the engine would
compute wrongly."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from workers.engines.base import CheckpointUnsupported
from workers.engines.continuous.slots import KvShape
from workers.engines.continuous.spelling import token_bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    model: Any
    decode: Callable[[Sequence[int]], str]
    raw: Callable[[int], bytes]
    eos_token_ids: frozenset[int]
    context_tokens: int
    vocabulary: int
    kv_shape: KvShape


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a checkpoint in float32 on the CPU, whatever is on disk. Never reaches for a hub."""
    import torch
    from transformers import AutoModelForCausalLM

    if not (path / "config.json").is_file():
        raise CheckpointUnsupported(f"{path} holds no config.json: it is not a checkpoint folder")
    model, report = AutoModelForCausalLM.from_pretrained(
        path,
        dtype=torch.float32,
        attn_implementation="sdpa",
        local_files_only=True,
        use_safetensors=True,
        output_loading_info=True,
    )
    _check_loaded(path, report)
    model.eval()
    decode, raw = decoders(path)
    return Checkpoint(
        model=model,
        decode=decode,
        raw=raw,
        eos_token_ids=eos_token_ids(model.generation_config, model.config),
        context_tokens=context_tokens(model.config),
        vocabulary=model.config.vocab_size,
        kv_shape=kv_shape(model.config),
    )


def _check_loaded(path: Path, report: Mapping[str, Collection[str]]) -> None:
    """Refuse incomplete weights. The library fills missing ones with random numbers, and only
    warns."""
    if missing := sorted(report["missing_keys"]):
        raise CheckpointUnsupported(
            f"the weights of {path} lack {len(missing)} tensors, {missing[0]} among them"
        )


def decoders(path: Path) -> tuple[Callable[[Sequence[int]], str], Callable[[int], bytes]]:
    """Two decoders: of tokens in a row, and of one token alone. They use the folder's fast
    tokenizer without the layers above it, because they run for every token."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        plain = partial(backend.decode, skip_special_tokens=True)
        return plain, token_bytes(backend)
    whole = partial(tokenizer.decode, clean_up_tokenization_spaces=False)
    return partial(whole, skip_special_tokens=True), lambda token_id: whole([token_id]).encode()


def tokenizer_source(path: Path) -> str | None:
    """The tokenizer with every token that the folder adds to it. None for a kind that the
    tokenizers library does not know."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    backend.no_truncation()
    backend.no_padding()
    return str(backend.to_str())


def eos_token_ids(generation_config: Any, config: Any) -> frozenset[int]:
    eos = generation_config.eos_token_id
    if eos is None:
        eos = config.eos_token_id
    if eos is None:
        return frozenset()
    return frozenset([eos] if isinstance(eos, int) else eos)


def context_tokens(config: Any) -> int:
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None:
        raise CheckpointUnsupported("the model's config names no max_position_embeddings")
    return int(limit)


def kv_shape(config: Any) -> KvShape:
    """The shape of keys and values, for full attention with equal key and value heads. Anything
    else (sliding windows, recurrent states) would need rows of another kind."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) or context_tokens(config)
    if kinds != {"full_attention"} or window < context_tokens(config):
        raise CheckpointUnsupported(f"attention kinds {sorted(kinds)} (sliding window {window})")
    heads = config.num_attention_heads
    return KvShape(
        layers=config.num_hidden_layers,
        heads=getattr(config, "num_key_value_heads", None) or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
    )
