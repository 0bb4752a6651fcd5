"""How many tokens a conversation is, by the model's own tokenizer and chat template.

Reads a Hugging Face checkpoint folder with the `tokenizers` library alone, so the gateway needs
no model code. Where there is no folder (an external model) the count is bounded by bytes:
byte-level tokenizers never make more tokens than there are bytes.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

from jinja2 import Template
from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

Message = dict[str, Any]
TEMPLATE_OVERHEAD_TOKENS = 8


class UnrenderableConversation(ValueError):
    """The model's chat template refuses these messages (roles out of order, say)."""


class TokenCounter(Protocol):
    def count(self, messages: Sequence[Message]) -> int: ...


class ByteBound:
    """An upper bound for models whose tokenizer is not here: bytes plus a few per message."""

    def count(self, messages: Sequence[Message]) -> int:
        return sum(len(m["content"].encode()) + TEMPLATE_OVERHEAD_TOKENS for m in messages)


class CheckpointTokens:
    """Exact counts for one checkpoint folder. Raises OSError or ValueError if it is not one."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "tokenizer_config.json").read_text())
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._special = {k: _token_text(config.get(k)) for k in ("bos_token", "eos_token")}
        self._template = _chat_template(folder, config)

    def count(self, messages: Sequence[Message]) -> int:
        """Prompt tokens of the rendered conversation, generation prompt included."""
        try:
            text = self._template.render(
                messages=messages, add_generation_prompt=True, **self._special
            )
        except TemplateError as refused:
            raise UnrenderableConversation(str(refused)) from refused
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _token_text(declared: object) -> str:
    if isinstance(declared, dict):
        return str(declared.get("content", ""))
    return str(declared or "")


def _chat_template(folder: Path, config: dict[str, Any]) -> Template:
    """The same dialect of Jinja that transformers renders, in the same sandbox."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = lambda value, **kwargs: json.dumps(
        value, ensure_ascii=False, **kwargs
    )
    environment.globals["raise_exception"] = _raise_template_error
    own_file = folder / "chat_template.jinja"
    source = own_file.read_text() if own_file.exists() else config.get("chat_template")
    if not source:
        raise ValueError(f"{folder.name} has no chat template")
    return environment.from_string(source)


def _raise_template_error(message: str) -> NoReturn:
    raise TemplateError(message)
