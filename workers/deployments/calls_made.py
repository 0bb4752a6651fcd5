"""Calls of tools in generated text, read as the text comes. Pure.

Guards that text and arguments leave as they were generated, whatever pieces they came in. Guards
that no mark of a call is in them. Guards that one output has one piece of each call at most.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from hashlib import blake2b
from typing import Any

from workers.engines.continuous.stops import held_back
from workers.engines.grammar import ARGUMENTS_PART, LAST_PART, NAME_PART
from workers.prompts.templates import CALL_CLOSE, CALL_OPEN

HEAD_BEGIN = "\n" + NAME_PART
HEAD = re.compile(re.escape(HEAD_BEGIN) + r"([a-zA-Z0-9_-]{1,64})" + re.escape(ARGUMENTS_PART))
HEAD_MAX = len(HEAD_BEGIN) + 64 + len(ARGUMENTS_PART)
END = LAST_PART + "\n" + CALL_CLOSE


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of the call number `index` of an answer. `id` and `name` come with the first
    piece."""

    index: int
    arguments: str
    id: str | None = None
    name: str | None = None

    def shape(self) -> dict[str, Any]:
        """The piece in the shape of OpenAI's chunks."""
        if self.name is None:
            return {"index": self.index, "function": {"arguments": self.arguments}}
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": self.index, "id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class Output:
    """The text and the calls in a piece of generated text."""

    text: str = ""
    calls: list[CallPiece] = field(default_factory=list)

    def call(self, piece: CallPiece) -> None:
        """Add a piece. It is joined to the last one if that is of the same call."""
        if self.calls and self.calls[-1].index == piece.index:
            last = self.calls.pop()
            piece = replace(last, arguments=last.arguments + piece.arguments)
        self.calls.append(piece)

    def __add__(self, later: Output) -> Output:
        joined = Output(self.text + later.text, list(self.calls))
        for piece in later.calls:
            joined.call(piece)
        return joined


class _At(Enum):
    TEXT = auto()
    HEAD = auto()
    ARGUMENTS = auto()


class CallReader:
    """Reads the answer number `choice` of a call. Where text is not `free`, as with JSON, a call
    can only be at the beginning of the answer or after another call."""

    def __init__(self, call_id: str, choice: int, *, free: bool = True) -> None:
        self._call_id = call_id
        self._choice = choice
        self._free = free
        self._at = _At.TEXT
        self._held = ""
        self._told = False  # some text is out since the last call
        self._arguments: list[str] = []
        self.made = 0

    def has_called(self, *, cut: bool) -> bool:
        """Whether a closed answer made calls, each of them whole. A `cut` answer has to end with
        its calls: no text follows them."""
        if self._at is _At.TEXT:
            return self.made > 0 and not (cut and self._told)
        return self._at is _At.ARGUMENTS and _is_json("".join(self._arguments))

    def read(self, text: str) -> Output:
        self._held += text
        output = Output()
        while self._step(output):
            pass
        return output

    def close(self) -> Output:
        """The text that was held back for a mark that did not come. A call that is cut before its
        arguments is none."""
        text, self._held = self._held, ""
        output = Output()
        if self._at is _At.TEXT:
            self._tell(output, text)
        elif self._at is _At.ARGUMENTS and not _is_json("".join(self._arguments)):
            self._tell_arguments(output, text[: len(LAST_PART)])
        return output

    def _step(self, output: Output) -> bool:
        """Take the next part of the held text. False once more text is needed."""
        if self._at is _At.TEXT:
            return self._text(output)
        if self._at is _At.HEAD:
            return self._head(output)
        return self._argument(output)

    def _text(self, output: Output) -> bool:
        at = self._held.find(CALL_OPEN) if self._may_call else -1
        if at >= 0:
            self._tell(output, self._held[:at])
            self._held = self._held[at + len(CALL_OPEN) :]
            self._at = _At.HEAD
            return True
        keep = held_back(self._held, CALL_OPEN) if self._may_call else 0
        if self.made and not self._told and not self._held.strip():
            return False  # white space after a call is none of the answer's
        self._tell(output, self._held[: len(self._held) - keep])
        self._held = self._held[len(self._held) - keep :]
        return False

    @property
    def _may_call(self) -> bool:
        return self._free or not self._told

    def _tell(self, output: Output, text: str) -> None:
        if text.strip() or (text and (self._told or not self.made)):
            output.text += text
            self._told = True

    def _head(self, output: Output) -> bool:
        head = HEAD.match(self._held)
        if head:
            self._held = self._held[head.end() :]
            self._at = _At.ARGUMENTS
            self._told = False
            self._arguments = []
            output.call(CallPiece(self.made, "", self._id(self.made), head[1]))
            self.made += 1
            return True
        if len(self._held) < HEAD_MAX:
            return False
        self._at = _At.TEXT  # no call after all
        self._tell(output, CALL_OPEN)
        return True

    def _argument(self, output: Output) -> bool:
        at = self._held.find(END)
        size = at if at >= 0 else len(self._held) - held_back(self._held, END)
        self._tell_arguments(output, self._held[:size])
        if at < 0:
            self._held = self._held[size:]
            return False
        self._held = self._held[at + len(END) :]
        self._at = _At.TEXT
        return True

    def _tell_arguments(self, output: Output, text: str) -> None:
        if text:
            output.call(CallPiece(self.made - 1, text))
            self._arguments.append(text)

    def _id(self, number: int) -> str:
        """The id of a call. It is the same whenever the same request is answered again."""
        name = f"{self._call_id}#{self._choice}#{number}"
        return "call_" + blake2b(name.encode(), digest_size=12).hexdigest()


class CallReaders:
    """One reader for each answer of a call."""

    def __init__(self, call_id: str, *, free: bool) -> None:
        self._call_id = call_id
        self._free = free
        self._readers: dict[int, CallReader] = {}

    def __getitem__(self, choice: int) -> CallReader:
        reader = self._readers.get(choice)
        if reader is None:
            reader = self._readers[choice] = CallReader(self._call_id, choice, free=self._free)
        return reader


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), Mapping)
    except ValueError:
        return False
