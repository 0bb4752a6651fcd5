"""What a checkpoint says about itself: its task, its shape and the longest context it was made for.

Read from its configuration files alone; a declaration overrides what is not a limit.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from gateway.catalog.weights.files import UnfitWeights
from routing.economics.shape import ModelShape, shape_of_config
from routing.types import Task

GENERATES = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
EMBEDS = ("Model", "ForMaskedLM")
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "n_ctx")
OFFSET_POSITIONS = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Models whose positions begin behind the padding's, so that so many are no context."""
OUTPUT_TOKENS_MAX = 4096
MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class Facts:
    """None where the files do not say."""

    task: Task | None
    context_tokens: int | None


def read_facts(folder: Path) -> Facts:
    """Raises UnfitWeights where there is no configuration that can be read."""
    config = _table(folder / "config.json")
    architectures = config.get("architectures")
    architecture = (
        str(architectures[0]) if isinstance(architectures, list) and architectures else ""
    )
    if (folder / "modules.json").is_file() or architecture.endswith(EMBEDS):
        task = Task.EMBED
    elif architecture.endswith(GENERATES):
        task = Task.GENERATE
    else:
        task = None
    return Facts(task, _context_tokens(folder, config, task))


def read_shape(folder: Path) -> ModelShape:
    """Raises UnfitWeights where the configuration does not say all of it."""
    try:
        return shape_of_config(_table(folder / "config.json"))
    except ValueError as lacking:
        raise UnfitWeights(f"{lacking}: write the shape of the variant") from lacking


def tokenizer_mistake(path: str | None, model_path: str | None) -> str | None:
    """Why a variant in one folder cannot be one of the model in another: the gateway counts, checks
    and sends tokens by the model's tokenizer. None where it can, or a folder cannot be read."""
    if path is None or model_path is None or path == model_path:
        return None
    own, models = (_tokenizer(Path(each)) for each in (path, model_path))
    if own is None or models is None or own == models:
        return None
    return f"{path} has another tokenizer than {model_path}, which is that of its model"


def check_embedding(folder: Path) -> None:
    """Raises UnfitWeights where vectors are not the plain mean of the last layer."""
    if strange := [kind for kind in _modules(folder / "modules.json") if kind not in MODULES]:
        raise UnfitWeights(f"modules.json asks for {strange[0]}, which is not served")
    for pooling in folder.glob("[0-9]_Pooling/config.json"):
        modes = {k for k, on in _table(pooling).items() if k.startswith("pooling_mode_") and on}
        if modes - {"pooling_mode_mean_tokens"}:
            raise UnfitWeights(f"pools by {', '.join(sorted(modes))}; only the mean is served")


def output_tokens(task: Task, context_tokens: int) -> int:
    """How much output a call may ask for where nobody says."""
    if task is Task.EMBED:
        return 1
    return max(1, min(OUTPUT_TOKENS_MAX, context_tokens // 2))


def _context_tokens(folder: Path, config: Mapping[str, Any], task: Task | None) -> int | None:
    sentence = folder / "sentence_bert_config.json"
    sentence_config = _table(sentence) if task is Task.EMBED and sentence.is_file() else {}
    if (declared := _positive(sentence_config.get("max_seq_length"))) is not None:
        return declared
    inner = config.get("text_config")
    tables = [config, inner] if isinstance(inner, dict) else [config]
    for table in tables:
        for key in CONTEXT_KEYS:
            if (length := _positive(table.get(key))) is not None:
                return length - _reserved_positions(table)
    return None


def _tokenizer(folder: Path) -> str | None:
    """What it makes of text, however the file is laid out."""
    try:
        tokenizer = Tokenizer.from_buffer((folder / "tokenizer.json").read_bytes())
    except Exception:  # the library has one kind for everything; `unreadable_because` refuses it
        return None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return str(tokenizer.to_str())


def _reserved_positions(config: Mapping[str, Any]) -> int:
    if config.get("model_type") not in OFFSET_POSITIONS:
        return 0
    return (_positive(config.get("pad_token_id")) or 0) + 1


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _modules(file: Path) -> list[str]:
    """The kinds of the parts of a sentence model, in order."""
    if not file.is_file():
        return []
    try:
        return [str(part["type"]).rsplit(".", 1)[-1] for part in json.loads(file.read_text())]
    except (OSError, ValueError, KeyError, TypeError) as broken:
        raise UnfitWeights(f"{file.name} cannot be read: {broken!r}") from broken


def _table(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text())
    except FileNotFoundError as missing:
        raise UnfitWeights(f"has no {file.name}") from missing
    except (OSError, ValueError) as broken:
        raise UnfitWeights(f"{file.name} cannot be read: {broken}") from broken
    if not isinstance(value, dict):
        raise UnfitWeights(f"{file.name} is not a table")
    return value
