"""Calls of tools in generated text, read as the text comes. Guards the law that text and arguments
leave as they were generated, whatever pieces they came in, and that no mark of a call is in them.
Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import blake2b
from typing import Any

from workers.engines.continuous.stops import held_back
from workers.engines.grammar import ARGUMENTS_PART, LAST_PART, NAME_PART
from workers.templates import CALL_CLOSE, CALL_OPEN

HEAD_BEGIN = "\n" + NAME_PART
HEAD = re.compile(re.escape(HEAD_BEGIN) + r"([a-zA-Z0-9_-]{1,64})" + re.escape(ARGUMENTS_PART))
HEAD_MAX = len(HEAD_BEGIN) + 64 + len(ARGUMENTS_PART)
END = LAST_PART + "\n" + CALL_CLOSE


@dataclass(frozen=True, slots=True)
class CallPiece:
    """A piece of the call number `index` of an answer; `id` and `name` come with the first."""

    index: int
    arguments: str
    id: str | None = None
    name: str | None = None

    def shape(self) -> dict[str, Any]:
        """As OpenAI's chunks say it."""
        if self.name is None:
            return {"index": self.index, "function": {"arguments": self.arguments}}
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": self.index, "id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class Said:
    """What a piece of generated text says."""

    text: str = ""
    calls: list[CallPiece] = field(default_factory=list)


class _At(Enum):
    TEXT = auto()
    HEAD = auto()
    ARGUMENTS = auto()


class CallReader:
    """Of the answer number `choice` of a call. Where text is not `free`, as JSON is not, a call can
    only be where the answer begins or after another call."""

    def __init__(self, call_id: str, choice: int, *, free: bool = True) -> None:
        self._call_id = call_id
        self._choice = choice
        self._free = free
        self._at = _At.TEXT
        self._held = ""
        self._told = False  # some text is out since the last call
        self._arguments: list[str] = []
        self.made = 0

    @property
    def open(self) -> bool:
        """A call has begun and not ended."""
        return self._at is not _At.TEXT

    def read(self, text: str) -> Said:
        self._held += text
        said = Said()
        while self._step(said):
            pass
        return said

    def close(self) -> Said:
        """What was held back for a mark that did not come; a call that is cut before its arguments
        is none."""
        held, self._held = self._held, ""
        if self._at is _At.TEXT:
            return Said(held if self._told or held.strip() or not self.made else "")
        if self._at is _At.HEAD or not held or _is_json("".join(self._arguments)):
            return Said()
        return Said(calls=[CallPiece(self.made - 1, held[: len(LAST_PART)])])

    def _step(self, said: Said) -> bool:
        """Take what can be told from what is held; False once more is needed."""
        if self._at is _At.TEXT:
            return self._text(said)
        if self._at is _At.HEAD:
            return self._head(said)
        return self._argument(said)

    def _text(self, said: Said) -> bool:
        at = self._held.find(CALL_OPEN) if self._may_call else -1
        if at >= 0:
            self._tell(said, self._held[:at])
            self._held = self._held[at + len(CALL_OPEN) :]
            self._at = _At.HEAD
            return True
        keep = held_back(self._held, CALL_OPEN) if self._may_call else 0
        if self.made and not self._told and not self._held.strip():
            return False  # white space after a call is none of the answer's
        self._tell(said, self._held[: len(self._held) - keep])
        self._held = self._held[len(self._held) - keep :]
        return False

    @property
    def _may_call(self) -> bool:
        return self._free or not self._told

    def _tell(self, said: Said, text: str) -> None:
        if text.strip() or (text and (self._told or not self.made)):
            said.text += text
            self._told = True

    def _head(self, said: Said) -> bool:
        found = HEAD.match(self._held)
        if found:
            self._held = self._held[found.end() :]
            self._at = _At.ARGUMENTS
            self._told = False
            self._arguments = []
            said.calls.append(CallPiece(self.made, "", self._id(self.made), found[1]))
            self.made += 1
            return True
        if len(self._held) < HEAD_MAX:
            return False
        self._at = _At.TEXT  # no call after all
        self._tell(said, CALL_OPEN)
        return True

    def _argument(self, said: Said) -> bool:
        at = self._held.find(END)
        size = at if at >= 0 else len(self._held) - held_back(self._held, END)
        if size:
            said.calls.append(CallPiece(self.made - 1, self._held[:size]))
            self._arguments.append(self._held[:size])
        if at < 0:
            self._held = self._held[size:]
            return False
        self._held = self._held[at + len(END) :]
        self._at = _At.TEXT
        return True

    def _id(self, number: int) -> str:
        """The same whenever the same request is answered again."""
        name = f"{self._call_id}#{self._choice}#{number}"
        return "call_" + blake2b(name.encode(), digest_size=12).hexdigest()


class CallReaders:
    """One for each answer of a call."""

    def __init__(self, call_id: str, *, free: bool) -> None:
        self._call_id = call_id
        self._free = free
        self._readers: dict[int, CallReader] = {}

    def __getitem__(self, choice: int) -> CallReader:
        found = self._readers.get(choice)
        if found is None:
            found = self._readers[choice] = CallReader(self._call_id, choice, free=self._free)
        return found


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), Mapping)
    except ValueError:
        return False
