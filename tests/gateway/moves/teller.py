"""A server outside that tells the same story to whoever asks, from its beginning or from where a
text that it is to continue ends. Its streams end where and how a test says."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.upstream import fake

PROMPT = 10
"""Tokens of the prompt, as this server counts them."""
Ends = Sequence[fake.Act]
"""What happens instead of the rest of a stream."""
REFUSAL = fake.refusal(400, {"message": "no prefix here", "code": "unsupported_parameter"})


@dataclass
class Teller:
    """Of each request in turn: after how many pieces its stream ends, and how. Then none does.
    `stories` are what it tells in turn, if it is not always the first one."""

    pieces: Sequence[str]
    ends: deque[tuple[int, Ends]] = field(default_factory=deque)
    cuts: deque[tuple[int, Ends]] = field(default_factory=deque)
    """The same by bytes."""
    stories: deque[Sequence[str]] = field(default_factory=deque)
    says_usage: bool = True
    usage: dict[str, Any] | None = None
    """What it says that it used, if that is not the truth."""
    spoils: dict[int, bytes] = field(default_factory=dict)
    """What the first stream says in place of its piece of that number."""
    adds: dict[int, bytes] = field(default_factory=dict)
    """What the first stream says before its piece of that number."""
    refuses_prefix: bool = False
    refuses_again: bool = False
    """And then what it is asked anew."""
    finish: str = "stop"
    asked: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, request: fake.Request) -> fake.Script:
        body = request.body
        self.asked.append(body)
        is_chat = "messages" in body
        said = _said(body, is_chat)
        is_again = self.refuses_again and len(self.asked) > 1
        if is_again or (said and self.refuses_prefix):
            return REFUSAL
        story = self.stories.popleft() if self.stories else self.pieces
        rest = _rest(story, said)
        events = [_piece(text, is_chat) for text in rest]
        usage = fake.plain_usage(PROMPT + len(story) - len(rest), len(rest))
        if self.usage is not None:
            usage = fake.event({"choices": [], "usage": self.usage})
        if len(self.asked) == 1:
            events = [
                self.adds.get(n, b"") + self.spoils.get(n, event) for n, event in enumerate(events)
            ]
        events += [
            _piece("", is_chat, self.finish),
            *([usage] if self.says_usage else []),
            fake.DONE,
        ]
        if self.cuts:
            at, acts = self.cuts.popleft()
            return fake.stream(b"".join(events)[:at], then=acts)
        if self.ends:
            after, acts = self.ends.popleft()
            return fake.stream(*events[:after], then=acts)
        return fake.stream(*events)


def _said(body: dict[str, Any], is_chat: bool) -> str:
    """The text that is to be continued."""
    if not is_chat:
        return str(body["prompt"]).removeprefix("Once")
    last = body["messages"][-1]
    if last["role"] != "assistant":
        return ""
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    return str(last["content"])


def _rest(story: Sequence[str], said: str) -> list[str]:
    rest = list(story)
    assert "".join(rest).startswith(said), "what is to be continued is what was told"
    while rest and said:
        assert said.startswith(rest[0]) or rest[0].startswith(said)
        said, left = said[len(rest[0]) :], rest[0][len(said) :]
        rest[:1] = [left] if left else []
    return rest


def _piece(text: str, is_chat: bool, finish: str | None = None) -> bytes:
    return fake.plain_frame(text, finish) if is_chat else fake.plain_text(text, finish)
