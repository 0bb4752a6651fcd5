"""Text of a conversation never becomes a control token, so nobody can forge a turn of it.

A chat template writes turns with control tokens (`<|user|>`, `<|end|>`). A tokenizer reads their
spelling as those tokens wherever it stands. Here a spelling inside a message stays text: it is
marked before rendering, and cut after its first character when it is encoded. All other text is
encoded as the tokenizer alone would encode it. The gateway counts and the engines generate by this
one file, which knows neither templates nor transformers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace
from tokenizers import Tokenizer

from workers.prompts.templates import Message, require_tools_taken, template_message
from workers.sampling import RENDERING, Rendering

ROLE = "role"
PLAIN = {ROLE, "content"}
"""What most messages have."""
Render = Callable[[Sequence[Message], Sequence[Message], Rendering], str]
MARKS = tuple(map(chr, range(0xFDD0, 0xFDF0)))
"""Unicode's noncharacters: no text has a use for them, and hardly any has one."""


class UnmarkableText(ValueError):
    """The messages contain control tokens and all 32 noncharacters."""


class SpelledToken(ValueError):
    """A message has the text of a control token in it, which cannot be told from the token."""


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
        render: Render,
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> list[int]:
        """The ids of the text that `render` makes of messages, tools and further arguments of the
        template. Raises UnmarkableText, and ToolsUnsupported for what the template cannot express.
        """
        template_kwargs = rendering.chat_template_kwargs
        plain = not (tools or template_kwargs) and all(m.keys() == PLAIN for m in messages)
        if plain and not any(self._spellings.search(m["content"]) for m in messages):
            return self._ids(_rendered(render, messages, tools, rendering))
        require_tools_taken(self._template, messages, tools)
        conversation = [template_message(message) for message in messages]
        texts = [text for part in (*conversation, *tools, template_kwargs) for text in _texts(part)]
        if not any(map(self._spellings.search, texts)):
            return self._ids(_rendered(render, conversation, tools, rendering))
        mark = _unused_mark(texts)
        marked = partial(self._spellings.sub, mark)
        rendered = _rendered(
            render,
            [_with_texts(part, marked) for part in conversation],
            [_with_texts(tool, marked) for tool in tools],
            replace(rendering, chat_template_kwargs=_with_texts(template_kwargs, marked)),
        )
        rendered = rendered.replace(_escaped(mark), mark)  # by a template that writes ASCII alone
        return [i for section in _sections(rendered, mark) for i in self._ids(section)]

    def prompt_text(
        self, messages: Sequence[Message], render: Render, rendering: Rendering = RENDERING
    ) -> str:
        """The text itself, for servers that take no ids. Raises SpelledToken where a message spells
        a control token, which such a server would read as one, and ToolsUnsupported."""
        require_tools_taken(self._template, messages, ())
        conversation = [template_message(message) for message in messages]
        parts = (*conversation, rendering.chat_template_kwargs)
        if any(self._spellings.search(text) for part in parts for text in _texts(part)):
            raise SpelledToken("A message spells a control token of the model.")
        return _rendered(render, conversation, (), rendering)

    def _ids(self, text: str) -> list[int]:
        return token_ids(self._tokenizer, text, add_special_tokens=False)


def _rendered(
    render: Render, messages: Sequence[Message], tools: Sequence[Message], rendering: Rendering
) -> str:
    """The rendered conversation. If its last message is to go on, the text ends with that message,
    whatever the template adds after it. Raises ValueError where the template does not write that
    text as it is."""
    text = render(messages, tools, rendering)
    if not rendering.continue_final_message:
        return text
    last = messages[-1]["content"].strip()
    place = text.rfind(last)
    if place < 0:
        raise ValueError("the template changes the last message, so it cannot go on")
    return text[: place + len(last)]


def token_ids(tokenizer: Tokenizer, text: str, *, add_special_tokens: bool) -> list[int]:
    """The ids of a text, encoded as a batch of one. `encode` would keep every other thread waiting
    meanwhile, and note where in the text each token lies."""
    batch = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    ids: list[int] = batch[0].ids
    return ids


def text_encoder(tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    """An encoder of text in which the spelling of an added token is text like any other."""
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
    """A pattern that matches the empty string before each occurrence of a token, overlapping ones
    too.

    A token of one character cannot be cut, so it stays as it is.
    """
    spellings = sorted({token for token in tokens if len(token) > 1})
    if not spellings:
        return re.compile(r"(?!)")
    first = "".join(re.escape(character) for character in sorted({t[0] for t in spellings}))
    return re.compile(f"(?=[{first}])(?={'|'.join(map(re.escape, spellings))})")


def _texts(part: Any) -> Iterator[str]:
    """Every string of a message or a tool but its role. Names of fields are included."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for name, value in part.items():
            if name != ROLE:
                yield name
                yield from _texts(value)
    elif isinstance(part, Sequence):
        for value in part:
            yield from _texts(value)


def _with_texts(part: Any, change: Callable[[str], str]) -> Any:
    """The message or tool with each of those strings changed."""
    if isinstance(part, str):
        return change(part)
    if isinstance(part, Mapping):
        return {
            change(name): value if name == ROLE else _with_texts(value, change)
            for name, value in part.items()
        }
    if isinstance(part, Sequence):
        return [_with_texts(value, change) for value in part]
    return part


def _unused_mark(texts: Sequence[str]) -> str:
    for mark in MARKS:
        if not any(mark in text or _escaped(mark) in text for text in texts):
            return mark
    raise UnmarkableText("the messages hold control tokens and every noncharacter of Unicode")


def _escaped(mark: str) -> str:
    return json.dumps(mark)[1:-1]


def _sections(rendered: str, mark: str) -> list[str]:
    """Sections of a text, cut one character after each mark: inside the spelling that follows the
    mark."""
    first, *others = rendered.split(mark)
    sections = [first]
    for part in others:
        sections[-1] += part[:1]
        sections.append(part[1:])
    return sections
