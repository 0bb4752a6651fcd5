"""How answers of generating routes look: what a route's form has to say, and the envelope that all
of them share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from billing.types import Usage
from gateway.call.frame import Choice
from gateway.errors import ApiError
from gateway.wire.sse import DONE, event
from gateway.wire.whole_choice import WholeChoice
from routing.types import Clock

NOTHING_YET = Usage()
ENDED = b'},"logprobs":null,"finish_reason":null}'

Notes = dict[str, str]
"""Our own words in a chunk, as its `sluice`."""


class AnswerHead(msgspec.Struct, frozen=True):
    """What every chunk and the whole answer share. `id` is without the prefix of its route,
    `created` in seconds, `begun_with` the usage as far as it was known when the answer began."""

    id: str
    created: int
    model: str
    service_tier: str
    begun_with: Usage = NOTHING_YET
    clock: Clock | None = None

    def now(self) -> int:
        """When this is asked, in seconds; without a clock, when it was created."""
        return self.created if self.clock is None else int(self.clock())


class Form(Protocol):
    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes: ...


class TypedForm:
    """A form that is not always JSON."""

    __slots__ = ()

    @property
    def content_type(self) -> str | None:
        """None: JSON."""
        return None


@dataclass(frozen=True, slots=True)
class SoundForm:
    """Of an answer that is sound, passed on as it comes."""

    content_type: str


class Chunks(Protocol):
    """The events of one stream as they leave, in the order of its life."""

    def opening(self, notes: Notes | None) -> Iterable[bytes]: ...

    def piece(self, choice: Choice, notes: Notes | None) -> Iterable[bytes]: ...

    def end(self, usage: Usage, cost: str, notes: Notes) -> bytes:
        """What only a stream that came to its own end has."""
        ...

    def failed(self, error: ApiError) -> bytes:
        """The last event of a stream that was cut."""
        ...


@runtime_checkable
class UsageChunks(Protocol):
    """Chunks each of which can say the usage so far."""

    def count(self, usage: Usage) -> None:
        """What the chunks from now on say of it."""
        ...


class StreamableForm(Form, Protocol):
    def chunks(self, head: AnswerHead, includes_usage: bool) -> Chunks: ...


def whole_answer(
    fields: dict[str, Any], choices: Sequence[dict[str, Any]], usage: Usage, cost: str
) -> bytes:
    """Of `envelope_fields` and the choices in one document."""
    usage_fields = usage_shape(usage) | {"cost": cost}
    return msgspec.json.encode(fields | {"choices": choices, "usage": usage_fields})


def envelope_fields(head: AnswerHead, id_prefix: str, name: str) -> dict[str, Any]:
    """What stands around the choices of an answer; `name` is its `object`."""
    return {
        "id": f"{id_prefix}-{head.id}",
        "object": name,
        "created": head.created,
        "model": head.model,
        "service_tier": head.service_tier,
    }


class Envelope:
    """Around the choices of each chunk of one stream: `fields` are all of them alike."""

    def __init__(self, fields: dict[str, Any], includes_usage: bool) -> None:
        self._base = fields
        self._includes_usage = includes_usage
        before = msgspec.json.encode(self._base).removesuffix(b"}")
        self._before = b"data: " + before + b',"choices":['
        self._after = b'],"usage":null' if includes_usage else b"]"
        self._ended = ENDED + self._after + b"}\n\n"

    def count(self, usage: Usage) -> None:
        self._after = b'],"usage":' + msgspec.json.encode(usage_shape(usage))
        self._ended = ENDED + self._after + b"}\n\n"

    def chunk(self, choice: dict[str, Any], notes: Notes | None = None) -> bytes:
        """What every chunk says alike was encoded once."""
        choice_json = msgspec.json.encode(choice)
        notes_json = b',"sluice":' + msgspec.json.encode(notes) if notes else b""
        return b"".join((self._before, choice_json, self._after, notes_json, b"}\n\n"))

    def text_chunk(self, index: int, text: str) -> bytes:
        """The chunk of a chat that brings text and no more, as nearly all do: the same bytes as
        `chunk` gives."""
        before = b'{"index":%d,"delta":{"content":' % index
        return b"".join((self._before, before, msgspec.json.encode(text), self._ended))

    def end(self, usage: Usage, cost: str, notes: Notes) -> bytes:
        """`[DONE]`, and before it the extra chunk with the usage where it was asked for."""
        if not self._includes_usage:
            return event(DONE)
        usage_fields = usage_shape(usage) | {"cost": cost}
        last = self._base | {"choices": [], "usage": usage_fields, "sluice": notes}
        return event(msgspec.json.encode(last)) + event(DONE)

    def failed(self, error: ApiError) -> bytes:
        return event(error.body())


def usage_shape(usage: Usage) -> dict[str, Any]:
    """Our disjoint classes in OpenAI's nested ones: cached is part of the prompt there."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.total,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_input,
            "audio_tokens": usage.audio_input,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": usage.audio_output,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
