"""Plain text to token ids, by the checkpoint's tokenizer.json and nothing above it: as the gateway
counts it. A file may ask for truncation or padding; neither happens here."""

from __future__ import annotations

from pathlib import Path

from workers.control_tokens import token_ids
from workers.engines.base import CheckpointUnsupported

TOKENIZER = "tokenizer.json"


class CheckpointText:
    def __init__(self, model_path: Path) -> None:
        from tokenizers import Tokenizer

        file = model_path / TOKENIZER
        if not file.is_file():
            raise CheckpointUnsupported(f"{model_path} holds no {TOKENIZER}")
        self._tokenizer = Tokenizer.from_file(str(file))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def token_ids(self, text: str) -> tuple[int, ...]:
        return tuple(token_ids(self._tokenizer, text, add_special_tokens=True))
