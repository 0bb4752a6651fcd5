"""The items of a response's output: reasoning, a message of text or refusal, calls of functions."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.call.frame import Logprobs
from gateway.wire.responses.calls import call_item, complete
from gateway.wire.responses.tools import Tool
from gateway.wire.whole_choice import WholeChoice

Json = dict[str, Any]

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons of chat that leave a response incomplete, and what it says why."""
IN_PROGRESS = "in_progress"


def gathered_output(
    answer_id: str, choice: WholeChoice, scored: bool, tools: Mapping[str, Tool]
) -> list[Json]:
    """Of a whole answer; a model that says nothing at all says an empty text."""
    calls = choice.tool_calls
    parts = []
    if choice.text or not (calls or choice.refusal):
        scores = scores_of(choice.logprobs) if scored else []
        parts.append(text_part(choice.text, scores))
    if choice.refusal:
        parts.append(refusal_part(choice.refusal))
    items = []
    if choice.reasoning:
        content = [reasoning_part(choice.reasoning)]
        items.append(reasoning_item(answer_id, 0) | {"content": content})
    if parts:
        items.append(message_item(answer_id, len(items)) | {"content": parts})
    for call in calls:
        item = call_item(answer_id, len(items), call["id"], call["function"]["name"], tools)
        complete(item, call["function"]["arguments"])
        items.append(item)
    end_items(items, choice.finish_reason)
    return items


def end_items(items: Sequence[Json], finish_reason: str) -> None:
    """Only the last one may have been cut short."""
    for item in items:
        item["status"] = "completed"
    if items and finish_reason in INCOMPLETE:
        items[-1]["status"] = "incomplete"


def reasoning_item(answer_id: str, place: int) -> Json:
    return {
        "id": f"rs_{answer_id}_{place}",
        "type": "reasoning",
        "status": IN_PROGRESS,
        "summary": [],
        "content": [],
    }


def message_item(answer_id: str, place: int) -> Json:
    return {
        "id": f"msg_{answer_id}_{place}",
        "type": "message",
        "status": IN_PROGRESS,
        "role": "assistant",
        "content": [],
    }


def text_part(text: str, scores: Sequence[Json]) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": scores}


def reasoning_part(text: str) -> Json:
    return {"type": "reasoning_text", "text": text}


def refusal_part(refusal: str) -> Json:
    return {"type": "refusal", "refusal": refusal}


def scores_of(logprobs: Logprobs | None) -> list[Json]:
    """Log probabilities as this route says them: every token with its bytes."""
    if logprobs is None or logprobs.content is None:
        return []
    return [
        _score(token.token, token.logprob, token.bytes)
        | {"top_logprobs": [_score(t.token, t.logprob, t.bytes) for t in token.top_logprobs]}
        for token in logprobs.content
    ]


def _score(token: str, logprob: float, spelled: list[int] | None) -> Json:
    own_bytes = list(token.encode()) if spelled is None else spelled
    return {"token": token, "logprob": logprob, "bytes": own_bytes}
