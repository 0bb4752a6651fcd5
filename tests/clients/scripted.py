"""A server outside that tells an agent what to do: at each turn a call of a tool, in the end a
text, with the usage that each answer is to be billed by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.upstream import fake

INPUT_USD_PER_MTOK, CACHED_USD_PER_MTOK, OUTPUT_USD_PER_MTOK = "3", "0.3", "15"


@dataclass(frozen=True)
class Calls:
    """What the model does in a turn: tools, by name, and what it gives each."""

    tools: Sequence[tuple[str, dict[str, Any]]]
    thought: str = ""


@dataclass(frozen=True)
class Says:
    text: str


Turn = Calls | Says


@dataclass
class Model:
    """`told` are the bodies it was sent, `reported` what it said that each answer used."""

    turns: Sequence[Turn]
    told: list[dict[str, Any]] = field(default_factory=list)
    reported: list[tuple[int, int, int]] = field(default_factory=list)
    """Input that no cache had, input that one had, and output."""

    def __call__(self, request: fake.Request) -> fake.Script:
        body = request.body
        self.told.append(body)
        if not body.get("tools"):
            return self._answer([_said({"content": "A note"}), _ended("stop")])
        turn = self.turns[self._turn(body)]
        if isinstance(turn, Says):
            words = [_said({"content": word}) for word in turn.text.split(" ")]
            spaced = [_said({"content": " "})] * len(words)
            pieces = [piece for pair in zip(words, spaced, strict=True) for piece in pair][:-1]
            return self._answer([*pieces, _ended("stop")])
        return self._answer([*self._calls(turn), _ended("tool_calls")])

    def _turn(self, body: dict[str, Any]) -> int:
        """By the turns with tools that lie behind: what is asked twice is answered alike."""
        return sum(1 for message in body["messages"] if message.get("tool_calls"))

    def _calls(self, turn: Calls) -> list[bytes]:
        thoughts = [_said({"reasoning_content": turn.thought})] if turn.thought else []
        found = []
        for index, (name, given) in enumerate(turn.tools):
            arguments = json.dumps(given)
            middle = len(arguments) // 2
            call = {"index": index, "id": f"call_{len(self.told)}_{index}", "type": "function"}
            begun = {"name": name, "arguments": arguments[:middle]}
            rest = {"index": index, "function": {"arguments": arguments[middle:]}}
            found += [
                _said({"tool_calls": [call | {"function": begun}]}),
                _said({"tool_calls": [rest]}),
            ]
        return [*thoughts, *found]

    def _answer(self, pieces: Sequence[bytes]) -> fake.Script:
        number = len(self.told)
        fresh, cached, output = 1000 + 7 * number, 100 * number, 20 + number
        self.reported.append((fresh, cached, output))
        used = fake.plain_usage(fresh + cached, output, cached)
        return fake.stream(_said({"role": "assistant"}), *pieces, used, fake.DONE)

    @property
    def offered(self) -> list[dict[str, Any]]:
        """What it was told in the turns of the conversation itself."""
        return [body for body in self.told if body.get("tools")]

    def results(self) -> list[str]:
        """What the tools answered, as the last body says."""
        return [
            _text(message["content"])
            for message in self.offered[-1]["messages"]
            if message["role"] == "tool"
        ]

    def thoughts(self) -> list[str]:
        """What it is told that it thought before."""
        messages = self.offered[-1]["messages"]
        return [said for message in messages if (said := message.get("reasoning_content"))]


def _text(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _said(delta: dict[str, Any]) -> bytes:
    return fake.event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def _ended(reason: str) -> bytes:
    return fake.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
