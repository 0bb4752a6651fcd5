"""What every call of a model has in common once its body has passed every check, whichever route
it came by: the model, the payload that goes to it, and the form that the answer takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeGuard, runtime_checkable

import msgspec

from gateway.catalog.tokenizers import TokenCounter
from gateway.uploads.sent_form import SentForm
from gateway.wire.answer import AnswerHead, Chunks, Form, SoundForm, StreamableForm
from routing.policy.action import NO_BOUND, PriceBound
from routing.policy.narrow import Preferences
from routing.types import Task


class Payload(Protocol):
    """What to count, and what to send to whichever model the call ends on."""

    @property
    def task(self) -> Task: ...

    @property
    def param(self) -> str:
        """The field that holds the prompts; errors name it."""
        ...

    @property
    def path(self) -> str:
        """Where models are asked for it, below `/v1`."""
        ...

    @property
    def choices(self) -> int:
        """How many answers there will be, over all prompts."""
        ...

    @property
    def truncate_prompt_tokens(self) -> int | None:
        """How many tokens are left of each prompt: -1 for as many as there is room for."""
        ...

    @property
    def extra(self) -> Mapping[str, Any] | None:
        """Fields that only servers outside read, and only those that are said to take them."""
        ...

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        """Of each prompt, before any of it is cut; raises ApiError 400."""
        ...

    def question(self) -> str:
        """What the answer depends on most: the last message of the user, or the prompt. Empty
        where it is not text."""
        ...

    def longest_characters(self) -> int:
        """Of the longest prompt: what can be told of it before it is counted."""
        ...

    def prefix(self) -> bytes:
        """How the prompt begins, for replicas to be told apart by what they have computed of it:
        calls that share it word by word share it here byte by byte. Empty where nothing of it is
        kept, or not from its beginning."""
        ...

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        """What an own worker is told; `output_tokens_max` is that of each choice."""
        ...

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        """The same in OpenAI's words, for an external server."""
        ...


class Sold(Protocol):
    """A payload that is sold by units beside its tokens."""

    @property
    def unit(self) -> str:
        """What they are (`billing.prices.tariff`)."""
        ...

    def units(self, prompts: Sequence[int]) -> int:
        """The most that it may come to, by the tokens of each prompt."""
        ...


@runtime_checkable
class SentAsForm(Protocol):
    """A payload that has files: servers outside are sent a form, and nobody else is asked."""

    def sent(self, body: Mapping[str, Any]) -> SentForm:
        """With the fields of its `outside_body`, and what was added to them."""
        ...


def is_sent_as_form(payload: Payload) -> TypeGuard[SentAsForm]:
    return _has_form(type(payload))


@cache
def _has_form(kind: type[object]) -> bool:
    """To ask a protocol takes longer than many a step of a call, so it is asked once a type."""
    return issubclass(kind, SentAsForm)


@dataclass(frozen=True, slots=True)
class Streaming:
    """How an answer is streamed; `includes_usage` as the client asked by `include_usage`, and
    `counts` where every chunk is to say it."""

    form: StreamableForm
    includes_usage: bool
    counts: bool = False

    def chunks(self, head: AnswerHead) -> Chunks:
        return self.form.chunks(head, self.includes_usage)


class GeneratingRequest(msgspec.Struct, frozen=True):
    """`output_tokens_max` is that of each choice, None for as many as there is room for; without
    `streaming` a whole answer is asked for."""

    model: str
    payload: Payload
    form: Form | SoundForm
    streaming: Streaming | None
    output_tokens_max: int | None
    service_tier: str
    end_user: str | None = None
    """Of the caller's own users the one who asks, as the caller names them."""
    end_user_param: str = "safety_identifier"
    """The field that would have said it."""
    prompt_cache_key: str | None = None
    """The caller's word for calls that share a beginning."""
    has_tools: bool = False
    metadata: Mapping[str, str] = {}
    preferences: Preferences | None = None
    """What the caller narrows the operator's rule by."""
    price_max: PriceBound = NO_BOUND
    """The most that the caller pays."""
    sold_by: Sold | None = None


def outside_stream(body: dict[str, Any]) -> dict[str, Any]:
    """Every external server is asked to stream and to say its usage."""
    return body | {"stream": True, "stream_options": {"include_usage": True}}


def outside_whole(body: dict[str, Any]) -> dict[str, Any]:
    """The same body for an answer in one piece."""
    return {name: value for name, value in body.items() if name not in _STREAMED}


_STREAMED = ("stream", "stream_options")
