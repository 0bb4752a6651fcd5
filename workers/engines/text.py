"""Plain text to token ids, by the checkpoint's tokenizer.json and nothing above it. The gateway
counts in the same way. A file may ask for truncation or padding; neither happens here."""

from __future__ import annotations

from pathlib import Path

from workers.engines.base import Bound, CheckpointUnsupported
from workers.prompts.control_tokens import token_ids

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

    def token_ids(self, text: str, bound: Bound | None = None) -> tuple[int, ...]:
        ids = tuple(token_ids(self._tokenizer, text, add_special_tokens=True))
        if bound is None or len(ids) <= bound.tokens:
            return ids
        inner = tuple(token_ids(self._tokenizer, text, add_special_tokens=False))
        room = bound.tokens - (len(ids) - len(inner))
        if room < 1:
            return bound.cut(ids)
        starts = range(len(ids) - len(inner) + 1)
        before = next(n for n in starts if ids[n : n + len(inner)] == inner)
        return ids[:before] + bound._replace(tokens=room).cut(inner) + ids[before + len(inner) :]
