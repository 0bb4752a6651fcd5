"""Text of a conversation never becomes a control token, so nobody can forge a turn of it.

A chat template writes turns with control tokens (`<|user|>`, `<|end|>`), and a tokenizer reads
their spelling as those tokens wherever it stands. Here the spelling inside a message stays text:
it is marked before rendering and cut after its first character when it is encoded. All other text
is encoded exactly as it would be without. The gateway counts and the engines generate by this one
file, which knows neither templates nor transformers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer

Message = dict[str, Any]

MARKS = tuple(map(chr, range(0xFDD0, 0xFDF0)))
"""Unicode's noncharacters: no text has a use for them, and hardly any has one."""


class UnmarkableText(ValueError):
    """Messages with control tokens and all 32 noncharacters in them."""


class ChatEncoder:
    """Encodes conversations for one tokenizer and the source of its chat template."""

    def __init__(self, tokenizer: Tokenizer, template: str) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._spellings = _spellings(control_tokens(tokenizer, template))

    def prompt_ids(
        self, messages: Sequence[Message], render: Callable[[Sequence[Message]], str]
    ) -> list[int]:
        """The ids of what `render` makes of the messages; raises UnmarkableText."""
        if not any(self._spellings.search(message["content"]) for message in messages):
            return self._ids(render(messages))
        mark = _unused_mark(messages)
        marked = [m | {"content": self._spellings.sub(mark, m["content"])} for m in messages]
        return [i for section in _sections(render(marked), mark) for i in self._ids(section)]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def control_tokens(tokenizer: Tokenizer, template: str) -> list[str]:
    """Special tokens, and other added tokens that the template writes (white space is text)."""
    return [
        token.content
        for token in tokenizer.get_added_tokens_decoder().values()
        if token.special or (token.content in template and not token.content.isspace())
    ]


def _spellings(tokens: Iterable[str]) -> re.Pattern[str]:
    """Matches the empty string before each occurrence, overlapping ones too.

    One character cannot be cut; it stays what it is.
    """
    found = sorted({token for token in tokens if len(token) > 1})
    if not found:
        return re.compile(r"(?!)")
    first = "".join(re.escape(character) for character in sorted({t[0] for t in found}))
    return re.compile(f"(?=[{first}])(?={'|'.join(map(re.escape, found))})")


def _unused_mark(messages: Sequence[Message]) -> str:
    for mark in MARKS:
        if not any(mark in message["content"] for message in messages):
            return mark
    raise UnmarkableText("the messages hold control tokens and every noncharacter of Unicode")


def _sections(rendered: str, mark: str) -> list[str]:
    """Cut one character after each mark: inside the spelling that it stands before."""
    first, *rest = rendered.split(mark)
    sections = [first]
    for part in rest:
        sections[-1] += part[:1]
        sections.append(part[1:])
    return sections
