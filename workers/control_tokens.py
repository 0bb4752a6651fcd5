"""Text of a conversation never becomes a control token, so nobody can forge a turn of it.

A chat template writes turns with control tokens (`<|user|>`, `<|end|>`), and a tokenizer reads
their spelling as those tokens wherever it stands. Here the spelling inside a message stays text:
it is marked before rendering and cut after its first character when it is encoded. All other text
is encoded exactly as it would be without. The gateway counts and the engines generate by this one
file, which knows neither templates nor transformers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tokenizers import Tokenizer

from workers.templates import Message, require_tools_taken, told

ROLE = "role"
PLAIN = {ROLE, "content"}
"""What most messages have."""
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
        self._template = template
        self._spellings = _spellings(control_tokens(tokenizer, template))

    def prompt_ids(
        self,
        messages: Sequence[Message],
        render: Callable[[Sequence[Message], Sequence[Message]], str],
        tools: Sequence[Message] = (),
    ) -> list[int]:
        """The ids of what `render` makes of messages and tools; raises UnmarkableText, and
        ToolsUnsupported for what the template cannot say."""
        plain = not tools and all(message.keys() == PLAIN for message in messages)
        if plain and not any(self._spellings.search(m["content"]) for m in messages):
            return self._ids(render(messages, tools))
        require_tools_taken(self._template, messages, tools)
        conversation = [told(message) for message in messages]
        texts = [text for said in (*conversation, *tools) for text in _texts(said)]
        if not any(map(self._spellings.search, texts)):
            return self._ids(render(conversation, tools))
        mark = _unused_mark(texts)
        marked = partial(self._spellings.sub, mark)
        rendered = render(
            [_with_texts(said, marked) for said in conversation],
            [_with_texts(tool, marked) for tool in tools],
        )
        rendered = rendered.replace(_escaped(mark), mark)  # by a template that writes ASCII alone
        return [i for section in _sections(rendered, mark) for i in self._ids(section)]

    def _ids(self, text: str) -> list[int]:
        return token_ids(self._tokenizer, text, add_special_tokens=False)


def token_ids(tokenizer: Tokenizer, text: str, *, add_special_tokens: bool) -> list[int]:
    """The ids of a text. A batch of one, for `encode` keeps every other thread waiting meanwhile,
    and takes down where in the text each token lies."""
    batch = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    ids: list[int] = batch[0].ids
    return ids


def text_encoder(tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    """Encodes text in which the spelling of an added token is text like any other."""
    spellings = _spellings(token.content for token in tokenizer.get_added_tokens_decoder().values())
    ids = partial(token_ids, tokenizer, add_special_tokens=False)

    def encoded(text: str) -> list[int]:
        if not spellings.search(text):
            return ids(text)
        mark = _unused_mark([text])
        return [i for section in _sections(spellings.sub(mark, text), mark) for i in ids(section)]

    return encoded


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


def _texts(said: Any) -> Iterator[str]:
    """Every string of a message or a tool but its role, names of fields included."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, Mapping):
        for name, value in said.items():
            if name != ROLE:
                yield name
                yield from _texts(value)
    elif isinstance(said, Sequence):
        for value in said:
            yield from _texts(value)


def _with_texts(said: Any, change: Callable[[str], str]) -> Any:
    """The same with each of those strings changed."""
    if isinstance(said, str):
        return change(said)
    if isinstance(said, Mapping):
        return {
            change(name): value if name == ROLE else _with_texts(value, change)
            for name, value in said.items()
        }
    if isinstance(said, Sequence):
        return [_with_texts(value, change) for value in said]
    return said


def _unused_mark(texts: Sequence[str]) -> str:
    for mark in MARKS:
        if not any(mark in text or _escaped(mark) in text for text in texts):
            return mark
    raise UnmarkableText("the messages hold control tokens and every noncharacter of Unicode")


def _escaped(mark: str) -> str:
    return json.dumps(mark)[1:-1]


def _sections(rendered: str, mark: str) -> list[str]:
    """Cut one character after each mark: inside the spelling that it stands before."""
    first, *rest = rendered.split(mark)
    sections = [first]
    for part in rest:
        sections[-1] += part[:1]
        sections.append(part[1:])
    return sections
