"""Opens a Hugging Face checkpoint folder of an encoder, in the layout of sentence-transformers or
without it. Refuses a checkpoint that the engine would compute wrongly: other poolings than the
mean, further layers, decoders. Weights are read from safetensors only. Nothing of a folder is ever
unpickled or run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.engines.base import CheckpointUnsupported

MODULES = ("Transformer", "Pooling", "Normalize")
MEAN = "pooling_mode_mean_tokens"
POOLER = "pooler."


@dataclass(frozen=True, slots=True)
class EmbeddingCheckpoint:
    model: Any
    dimensions: int
    context_tokens: int
    vocabulary: int
    pad_token_id: int


def open_checkpoint(path: Path) -> EmbeddingCheckpoint:
    """Open a checkpoint in float32 on the CPU, whatever is on disk. Never reaches for a hub. Raises
    CheckpointUnsupported."""
    import torch
    from transformers import AutoModel

    config = _table(path / "config.json")
    _check_modules(path)
    _check_architecture(config)
    if not any(path.glob("*.safetensors")):
        raise CheckpointUnsupported(f"{path} holds no safetensors; nothing else is loaded")
    model, report = AutoModel.from_pretrained(
        path,
        dtype=torch.float32,
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
    )
    _check_loaded(path, report["missing_keys"])
    model.eval()
    return EmbeddingCheckpoint(
        model=model,
        dimensions=model.config.hidden_size,
        context_tokens=_context_tokens(path, model),
        vocabulary=model.config.vocab_size,
        pad_token_id=model.config.pad_token_id or 0,
    )


def _check_loaded(path: Path, missing_keys: Iterable[str]) -> None:
    """Refuse incomplete weights. The library fills missing ones with random numbers, and only
    warns. Weights above the last layer are not used here, so they may be missing."""
    missing = sorted(key for key in missing_keys if not key.startswith(POOLER))
    if missing:
        raise CheckpointUnsupported(
            f"the weights of {path} lack {len(missing)} tensors, {missing[0]} among them"
        )


def _check_modules(path: Path) -> None:
    """Refuse modules of sentence-transformers after the last layer that are not computed here.
    Vectors are always brought to length 1 here, whether or not the folder asks for it."""
    file = path / "modules.json"
    modules = _json(file) if file.is_file() else []
    for module in modules:
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        if kind not in MODULES:
            raise CheckpointUnsupported(f"modules.json has a {kind}, which is not computed here")
        if kind == "Pooling":
            _check_pooling(path / str(module.get("path", "")) / "config.json")
    if not modules and (path / "1_Pooling" / "config.json").is_file():
        _check_pooling(path / "1_Pooling" / "config.json")


def _check_pooling(file: Path) -> None:
    modes = {name for name, on in _table(file).items() if name.startswith("pooling_mode_") and on}
    if modes != {MEAN}:
        raise CheckpointUnsupported(f"pools by {sorted(modes)}; only {MEAN} is computed here")


def _check_architecture(config: dict[str, Any]) -> None:
    names = [str(name) for name in config.get("architectures") or ()]
    decodes = config.get("is_decoder") or config.get("is_encoder_decoder")
    if decodes or any(name.endswith("ForCausalLM") for name in names):
        raise CheckpointUnsupported(f"{', '.join(names) or 'the model'} is not an encoder")


def _context_tokens(path: Path, model: Any) -> int:
    """The smaller of what the positions allow and where sentence-transformers would cut."""
    bounds = [_positions(model)]
    file = path / "sentence_bert_config.json"
    if file.is_file() and (declared := _table(file).get("max_seq_length")) is not None:
        bounds.append(int(declared))
    return min(bounds)


def _positions(model: Any) -> int:
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        raise CheckpointUnsupported("the model's config names no max_position_embeddings")
    # RoBERTa and its kin count positions from behind the padding's own.
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return int(positions) - (0 if padding is None else padding + 1)


def _table(file: Path) -> dict[str, Any]:
    table = _json(file)
    if not isinstance(table, dict):
        raise CheckpointUnsupported(f"{file} is not a table")
    return table


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointUnsupported(f"{file} cannot be read: {error}") from error
