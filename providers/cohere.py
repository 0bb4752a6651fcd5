"""Cohere's stream of Chat version 2, read as its document describes it.

The library's own reader of it fails at the lines `event: ...`, and sees neither the end, with the
usage, nor the calls of tools. Pure but for the lines that it is given.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

FINISHED = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
}


class CohereEvents:
    """In place of the library's reader: an event at a time, in the library's form of one."""

    def __init__(self, streaming_response: Any, sync_stream: bool, json_mode: Any = False) -> None:
        self._lines: AsyncIterator[str] = streaming_response

    def __aiter__(self) -> "CohereEvents":
        return self

    async def __anext__(self) -> dict[str, Any]:
        async for line in self._lines:
            if line.startswith("data:"):
                return event_of(json.loads(line.removeprefix("data:")))
        raise StopAsyncIteration


def event_of(event: dict[str, Any]) -> dict[str, Any]:
    """What the library makes chunks of. Raises RuntimeError for an end that is none."""
    kind, delta = event.get("type"), event.get("delta") or {}
    message = delta.get("message") or {}
    out: dict[str, Any] = {
        "text": "",
        "tool_use": None,
        "is_finished": False,
        "finish_reason": "",
        "usage": None,
        "index": 0,
    }
    if kind == "content-delta":
        out["text"] = (message.get("content") or {}).get("text") or ""
    elif kind in ("tool-call-start", "tool-call-delta"):
        out["tool_use"] = _piece(event.get("index", 0), message.get("tool_calls") or {})
    elif kind == "message-end":
        reason = delta.get("finish_reason")
        if reason not in FINISHED:
            raise RuntimeError(f"Cohere ended its answer with {reason}")
        used = (delta.get("usage") or {}).get("tokens") or {}
        prompt, completion = used.get("input_tokens", 0), used.get("output_tokens", 0)
        counts = {"prompt_tokens": prompt, "completion_tokens": completion}
        out |= {"is_finished": True, "finish_reason": FINISHED[reason]}
        out["usage"] = counts | {"total_tokens": prompt + completion}
    return out


def _piece(index: int, call: dict[str, Any]) -> dict[str, Any]:
    said = call.get("function") or {}
    function = {"name": said.get("name"), "arguments": said.get("arguments") or ""}
    return {"id": call.get("id"), "type": "function", "function": function, "index": index}
