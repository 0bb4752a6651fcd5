"""The events of a streamed message: a start, blocks one after the other, and how it ended.

Guards law 9 here: `message_delta` and `message_stop` are what only `end` says.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from billing.types import Usage
from gateway.call.frame import Choice, ToolCallPiece
from gateway.errors import ApiError
from gateway.wire.answer import AnswerHead, Notes
from gateway.wire.anthropic.errors import error_body
from gateway.wire.call_pieces import CallPieces
from gateway.wire.sse import named_event
from gateway.wire.whole_choice import CUT_SHORT

Json = dict[str, Any]

TEXT, THOUGHT = -1, -2
"""The blocks that hold text and thinking, where calls have their number."""


class Message(Protocol):
    """The Message object around what is streamed."""

    @property
    def tells_thoughts(self) -> bool: ...

    def begun(self, head: AnswerHead) -> Json: ...

    def edited(self) -> Json: ...

    def ended(self, finish_reason: str, stop: object, *, used_tools: bool) -> Json: ...


class MessageChunks:
    def __init__(self, form: Message, head: AnswerHead) -> None:
        self._form = form
        self._head = head
        self._blocks = 0
        self._open: int | None = None
        self._calls: dict[int, int] = {}
        self._pieces = CallPieces()
        self._finish_reason = CUT_SHORT
        self._stop: object = None
        self._notes: Notes = {}

    def opening(self, notes: Notes | None) -> Iterator[bytes]:
        extra = {"sluice": notes} if notes else {}
        yield message_event("message_start", {"message": self._form.begun(self._head)} | extra)
        yield message_event("ping", {})

    def piece(self, choice: Choice, notes: Notes | None) -> Iterator[bytes]:
        if self._form.tells_thoughts and (reasoning := choice.reasoning):
            if self._open != THOUGHT:
                block = {"type": "thinking", "thinking": "", "signature": ""}
                yield from self._begin(THOUGHT, block)
            delta = {"type": "thinking_delta", "thinking": reasoning}
            yield self._delta(self._blocks - 1, delta)
        text = choice.content
        if isinstance(refusal := choice.delta.get("refusal"), str):
            text += refusal
        if text:
            if self._open != TEXT:
                yield from self._begin(TEXT, {"type": "text", "text": ""})
            yield self._delta(self._blocks - 1, {"type": "text_delta", "text": text})
        for call in self._pieces.next(choice):
            yield from self._call(call)
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
            self._stop = choice.stop_reason
            self._notes = self._notes | (notes or {})

    def end(self, usage: Usage, cost: str, notes: Notes) -> bytes:
        used_tools = bool(self._calls)
        shape = self._form.begun(self._head)["usage"] | {
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cached_input,
            "output_tokens": usage.completion,
            "cost": cost,
        }
        fields = {
            "delta": self._form.ended(self._finish_reason, self._stop, used_tools=used_tools),
            "usage": shape,
            "sluice": self._notes | notes,
        } | self._form.edited()
        ends = [message_event("message_delta", fields), message_event("message_stop", {})]
        return b"".join([*self._close(), *ends])

    def failed(self, error: ApiError) -> bytes:
        return named_event("error", error_body(error, f"req_{self._head.id}"))

    def _call(self, piece: ToolCallPiece) -> Iterator[bytes]:
        if piece.index not in self._calls:
            use = {"type": "tool_use", "id": piece.id or "", "name": piece.name, "input": {}}
            yield from self._begin(piece.index, use)
            self._calls[piece.index] = self._blocks - 1
        if piece.arguments:
            delta = {"type": "input_json_delta", "partial_json": piece.arguments}
            yield self._delta(self._calls[piece.index], delta)

    def _begin(self, number: int, block: Json) -> Iterator[bytes]:
        yield from self._close()
        event = {"index": self._blocks, "content_block": block}
        self._open = number
        self._blocks += 1
        yield message_event("content_block_start", event)

    def _delta(self, block: int, delta: Json) -> bytes:
        return message_event("content_block_delta", {"index": block, "delta": delta})

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            self._open = None
            yield message_event("content_block_stop", {"index": self._blocks - 1})


def message_event(name: str, fields: Json) -> bytes:
    return named_event(name, msgspec.json.encode({"type": name} | fields))
