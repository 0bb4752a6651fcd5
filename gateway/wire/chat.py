"""Chat completions on the wire: a body checked into a `ChatRequest`, answers shaped as OpenAI's.

Nothing of a body is dropped silently. Knows no prices, no pools and no HTTP beyond the body.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from billing.types import Usage
from gateway.errors import ApiError, bad_request
from gateway.wire.checks import CHECKS, SAMPLING, Check


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A body that passed every check. `sampling` goes to the engine as it is."""

    model: str
    messages: tuple[dict[str, Any], ...]
    stream: bool
    include_usage: bool
    output_tokens_max: int | None
    service_tier: str
    sampling: dict[str, Any]


def parse_chat(body: bytes) -> ChatRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields = checked(json_object(body), CHECKS)
    if fields.get("stream_options") is not None and not fields.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise bad_request(message, "stream_options")
    for name in ("model", "messages"):
        if fields.get(name) is None:
            message = f"Missing required parameter: '{name}'."
            raise bad_request(message, name, "missing_required_parameter")
    ceiling = fields.get("max_completion_tokens")
    return ChatRequest(
        model=fields["model"],
        messages=tuple(plain_message(m) for m in fields["messages"]),
        stream=bool(fields.get("stream")),
        include_usage=bool((fields.get("stream_options") or {}).get("include_usage")),
        output_tokens_max=ceiling if ceiling is not None else fields.get("max_tokens"),
        service_tier=fields.get("service_tier") or "auto",
        sampling={k: fields[k] for k in SAMPLING if fields.get(k) is not None},
    )


def checked(fields: dict[str, Any], checks: Mapping[str, Check]) -> dict[str, Any]:
    """The fields as they are, if each is known and passes its check."""
    for name in fields.keys() - checks.keys():
        raise ApiError(400, f"Unrecognized request argument supplied: {name}", param=name)
    for name, check in checks.items():
        if fields.get(name) is not None:
            check(name, fields[name])
    return fields


def json_object(body: bytes) -> dict[str, Any]:
    """Raises ApiError 400 for what is no JSON object."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise bad_request("We could not parse the JSON body of your request.") from broken
    if not isinstance(fields, dict):
        raise bad_request("The JSON body of a request must be an object.")
    return fields


def plain_message(message: dict[str, Any]) -> dict[str, Any]:
    """Role and text; a developer message is a system message to models that know no developer."""
    role = "system" if message["role"] == "developer" else message["role"]
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return {"role": role, "content": content}


def usage_shape(usage: Usage) -> dict[str, Any]:
    """Our disjoint classes in OpenAI's nested ones: cached is part of the prompt there."""
    prompt_tokens = usage.input + usage.cached_input
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": usage.output,
        "total_tokens": prompt_tokens + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What every chunk and the whole answer share. `created` is in seconds."""

    id: str
    created: int
    model: str
    service_tier: str


def whole_answer(head: AnswerHead, text: str, finish_reason: str, usage: Usage, cost: str) -> bytes:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": [],
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
    return msgspec.json.encode(
        {
            "id": head.id,
            "object": "chat.completion",
            "created": head.created,
            "model": head.model,
            "choices": [choice],
            "usage": usage_shape(usage) | {"cost": cost},
            "service_tier": head.service_tier,
            "system_fingerprint": None,
        }
    )


class ChunkShaper:
    """Makes one stream's chunks; `with_usage` as the client asked by `include_usage`."""

    def __init__(self, head: AnswerHead, with_usage: bool) -> None:
        self._base: dict[str, Any] = {
            "id": head.id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
            "service_tier": head.service_tier,
            "system_fingerprint": None,
        }
        self._with_usage = with_usage

    def opening(self, sluice: dict[str, str] | None = None) -> bytes:
        """`sluice` names pool and tier where the headers left before they were known."""
        return self.delta({"role": "assistant", "content": "", "refusal": None}, None, sluice)

    def delta(
        self,
        delta: dict[str, Any],
        finish_reason: str | None,
        sluice: dict[str, str] | None = None,
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        rest: dict[str, Any] = {"usage": None} if self._with_usage else {}
        return self._chunk([choice], rest | ({"sluice": sluice} if sluice else {}))

    def usage(self, usage: Usage, cost: str, sluice: dict[str, str]) -> bytes:
        """The extra chunk before `[DONE]`; sent only when asked for."""
        return self._chunk([], {"usage": usage_shape(usage) | {"cost": cost}, "sluice": sluice})

    def _chunk(self, choices: list[dict[str, Any]], rest: dict[str, Any]) -> bytes:
        return msgspec.json.encode(self._base | {"choices": choices} | rest)
