"""How answers of generating routes look: what a route's form has to say, and the envelope that all
of them share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from billing.types import Usage
from gateway.frame import Choice
from gateway.wire.gathered import Gathered

Notes = dict[str, str]
"""Our own words in a chunk, as its `sluice`."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What every chunk and the whole answer share. `id` is without the prefix of its route,
    `created` in seconds."""

    id: str
    created: int
    model: str
    service_tier: str


class Form(Protocol):
    def whole(
        self, head: AnswerHead, choices: Sequence[Gathered], usage: Usage, cost: str
    ) -> bytes: ...


class Chunks(Protocol):
    """The chunks of one stream, in the order of its life."""

    def opening(self, notes: Notes | None) -> Iterable[bytes]: ...

    def piece(self, choice: Choice, notes: Notes | None) -> Iterable[bytes]: ...

    def usage(self, usage: Usage, cost: str, notes: Notes) -> bytes: ...


class StreamableForm(Form, Protocol):
    def chunks(self, head: AnswerHead, includes_usage: bool) -> Chunks: ...


class Envelope:
    """Around the choices of one answer: `name` is its `object`."""

    def __init__(
        self, head: AnswerHead, id_prefix: str, name: str, includes_usage: bool = False
    ) -> None:
        self._base: dict[str, Any] = {
            "id": f"{id_prefix}-{head.id}",
            "object": name,
            "created": head.created,
            "model": head.model,
            "service_tier": head.service_tier,
            "system_fingerprint": None,
        }
        self._chunk = self._base | {"choices": []} | ({"usage": None} if includes_usage else {})

    def whole(self, choices: Sequence[dict[str, Any]], usage: Usage, cost: str) -> bytes:
        counted = usage_shape(usage) | {"cost": cost}
        return msgspec.json.encode(self._base | {"choices": choices, "usage": counted})

    def chunk(self, choice: dict[str, Any], notes: Notes | None = None) -> bytes:
        fields = self._chunk | {"choices": [choice]}
        return msgspec.json.encode(fields | {"sluice": notes} if notes else fields)

    def usage(self, usage: Usage, cost: str, notes: Notes) -> bytes:
        """The extra chunk before `[DONE]`; sent only when asked for."""
        counted = usage_shape(usage) | {"cost": cost}
        return msgspec.json.encode(self._base | {"choices": [], "usage": counted, "sluice": notes})


def usage_shape(usage: Usage) -> dict[str, Any]:
    """Our disjoint classes in OpenAI's nested ones: cached is part of the prompt there."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
