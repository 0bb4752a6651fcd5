"""The typed events of a streamed response, numbered: each item is added, told piece by piece, and
done before the next one begins.

Guards law 9 here: `response.completed` and `response.incomplete` are what only `end` says.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from billing.types import Usage
from gateway.call.frame import Choice, ToolCallPiece
from gateway.errors import ApiError
from gateway.wire.answer import AnswerHead, Notes
from gateway.wire.call_pieces import CallPieces
from gateway.wire.responses.calls import call_item, complete
from gateway.wire.responses.output import (
    INCOMPLETE,
    message_item,
    reasoning_item,
    reasoning_part,
    refusal_part,
    scores_of,
    text_part,
)
from gateway.wire.responses.tools import Tool
from gateway.wire.sse import named_event
from gateway.wire.whole_choice import CUT_SHORT

Json = dict[str, Any]

ITEMS: dict[str, tuple[Callable[[str, int], Json], str]] = {
    "reasoning_text": (reasoning_item, "reasoning"),
    "output_text": (message_item, "message"),
    "refusal": (message_item, "message"),
}
"""What begins the item that a part of this kind stands in, and that item's type."""
PARTS: dict[str, Callable[[str], Json]] = {
    "reasoning_text": reasoning_part,
    "output_text": lambda text: text_part(text, []),
    "refusal": refusal_part,
}


class Frames(Protocol):
    """The Response object around what is streamed."""

    scored: bool
    tools: Mapping[str, Tool]

    def begun(self, head: AnswerHead) -> Json: ...

    def ended(
        self, head: AnswerHead, output: list[Json], finish_reason: str, usage: Usage, cost: str
    ) -> Json: ...


class ResponseChunks:
    def __init__(self, form: Frames, head: AnswerHead) -> None:
        self._form = form
        self._head = head
        self._events = 0
        self._items: list[Json] = []
        self._open: Json | None = None
        self._calls: dict[int, Json] = {}
        self._inputs: dict[str, str] = {}
        """What the calls of tools that are no functions are given, as far as it has come."""
        self._pieces_of_calls = CallPieces()
        self._pieces: list[str] = []
        self._scores: list[Json] = []
        self._untold: list[Json] = []
        self._finish_reason = CUT_SHORT
        self._notes: Notes = {}

    # the stream's life -------------------------------------------------------------------------

    def opening(self, notes: Notes | None) -> Iterator[bytes]:
        response = self._form.begun(self._head)
        extra = {"sluice": notes} if notes else {}
        yield self._event("response.created", {"response": response} | extra)
        yield self._event("response.in_progress", {"response": response})

    def piece(self, choice: Choice, notes: Notes | None) -> Iterator[bytes]:
        if self._form.scored and choice.logprobs is not None:
            self._untold += scores_of(choice.logprobs)
        if reasoning := choice.reasoning:
            yield from self._say("reasoning_text", reasoning)
        if choice.content:
            yield from self._say("output_text", choice.content)
        if isinstance(refusal := choice.delta.get("refusal"), str) and refusal:
            yield from self._say("refusal", refusal)
        for call in self._pieces_of_calls.next(choice):
            yield from self._call(call)
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
            self._notes = self._notes | (notes or {})

    def end(self, usage: Usage, cost: str, notes: Notes) -> bytes:
        reason = self._finish_reason
        says_something = any(item["type"] != "reasoning" for item in self._items)
        events = [] if says_something else [*self._say("output_text", "")]
        events += self._close("incomplete" if reason in INCOMPLETE else "completed")
        response = self._form.ended(self._head, self._items, reason, usage, cost)
        fields = {"response": response, "sluice": self._notes | notes}
        return b"".join([*events, self._event(f"response.{response['status']}", fields)])

    def failed(self, error: ApiError) -> bytes:
        return self._event("error", error_fields(error))

    # items -------------------------------------------------------------------------------------

    def _say(self, kind: str, text: str) -> Iterator[bytes]:
        new_item, item_type = ITEMS[kind]
        if self._open is None or self._open["type"] != item_type:
            yield from self._begin(new_item(self._head.id, len(self._items)))
        assert self._open is not None
        parts = self._open["content"]
        if not parts or parts[-1]["type"] != kind:
            yield from self._close_part()
            parts.append(PARTS[kind](""))
            yield self._event("response.content_part.added", self._at_part() | {"part": parts[-1]})
        if text:
            self._pieces.append(text)
            fields = self._at_part() | {"delta": text}
            if kind == "output_text":
                fields["logprobs"] = self._take_scores()
            yield self._event(f"response.{kind}.delta", fields)

    def _take_scores(self) -> list[Json]:
        """The scores that no event has told of yet."""
        untold, self._untold = self._untold, []
        self._scores += untold
        return untold

    def _call(self, piece: ToolCallPiece) -> Iterator[bytes]:
        """A piece of a call that is done already, which no server is known to send, reaches the
        answer's last event."""
        if piece.index not in self._calls:
            place, tools = len(self._items), self._form.tools
            item = call_item(self._head.id, place, piece.id or "", piece.name, tools)
            self._calls[piece.index] = item
            yield from self._begin(item)
        item = self._calls[piece.index]
        if piece.arguments and item["type"] != "function_call":
            self._inputs[item["id"]] = self._inputs.get(item["id"], "") + piece.arguments
        elif piece.arguments:
            item["arguments"] += piece.arguments
            fields = self._at(item) | {"delta": piece.arguments}
            yield self._event("response.function_call_arguments.delta", fields)

    def _begin(self, item: Json) -> Iterator[bytes]:
        yield from self._close("completed")
        self._items.append(item)
        self._open = item
        fields = {"output_index": len(self._items) - 1, "item": item}
        yield self._event("response.output_item.added", fields)

    def _close(self, status: str) -> Iterator[bytes]:
        item = self._open
        if item is None:
            return
        yield from self._close_part()
        if item["type"] == "function_call":
            fields = self._at(item) | {"name": item["name"], "arguments": item["arguments"]}
            yield self._event("response.function_call_arguments.done", fields)
        elif item["id"] in self._inputs:
            yield from self._complete(item, self._inputs[item["id"]])
        item["status"] = status
        self._open = None
        fields = {"output_index": self._items.index(item), "item": item}
        yield self._event("response.output_item.done", fields)

    def _complete(self, item: Json, arguments: str) -> Iterator[bytes]:
        """Its text stands inside of JSON, which is read once it is whole."""
        complete(item, arguments)
        if item["type"] == "custom_tool_call":
            at, text = self._at(item), item["input"]
            yield self._event("response.custom_tool_call_input.delta", at | {"delta": text})
            yield self._event("response.custom_tool_call_input.done", at | {"input": text})

    def _close_part(self) -> Iterator[bytes]:
        if self._open is None or not self._open.get("content"):
            return
        part = self._open["content"][-1]
        text, self._pieces = "".join(self._pieces), []
        if part["type"] == "refusal":
            part["refusal"] = text
            yield self._event("response.refusal.done", self._at_part() | {"refusal": text})
        elif part["type"] == "reasoning_text":
            part["text"] = text
            yield self._event("response.reasoning_text.done", self._at_part() | {"text": text})
        else:
            self._take_scores()
            part["text"], part["logprobs"], self._scores = text, self._scores, []
            fields = self._at_part() | {"text": text, "logprobs": part["logprobs"]}
            yield self._event("response.output_text.done", fields)
        yield self._event("response.content_part.done", self._at_part() | {"part": part})

    def _at(self, item: Json) -> Json:
        return {"item_id": item["id"], "output_index": self._items.index(item)}

    def _at_part(self) -> Json:
        assert self._open is not None
        place = {"content_index": max(0, len(self._open["content"]) - 1)}
        return {"item_id": self._open["id"], "output_index": len(self._items) - 1} | place

    def _event(self, name: str, fields: Json) -> bytes:
        event = {"type": name, "sequence_number": self._events} | fields
        self._events += 1
        return named_event(name, msgspec.json.encode(event))


def error_fields(error: ApiError) -> Json:
    fields = error.as_dict()
    return {name: fields[name] for name in ("code", "message", "param")}
