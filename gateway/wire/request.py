"""What every call of a model has in common once its body has passed every check, whichever route
it came by: the model, what is wanted of it, and the form that the answer takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from gateway.tokens import TokenCounter
from gateway.wire.answer import AnswerHead, Chunks, Form, StreamableForm
from routing.types import Task


class Wanted(Protocol):
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

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        """Of each prompt; raises ApiError 400."""
        ...

    def longest_characters(self) -> int:
        """Of the longest prompt: what can be told of it before it is counted."""
        ...

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        """What an own worker is told; `output_tokens_max` is that of each choice."""
        ...

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        """The same in OpenAI's words, for an external server."""
        ...


@dataclass(frozen=True, slots=True)
class Streaming:
    """How an answer is streamed; `includes_usage` as the client asked by `include_usage`."""

    form: StreamableForm
    includes_usage: bool

    def chunks(self, head: AnswerHead) -> Chunks:
        return self.form.chunks(head, self.includes_usage)


class GeneratingRequest(msgspec.Struct, frozen=True):
    """`output_tokens_max` is that of each choice, None for as many as there is room for; without
    `streaming` a whole answer is asked for."""

    model: str
    wanted: Wanted
    form: Form
    streaming: Streaming | None
    output_tokens_max: int | None
    service_tier: str
    end_user: str | None = None
    """Of the caller's own users the one who asks, as the caller names them."""
    end_user_param: str = "safety_identifier"
    """The field that would have said it."""


def generating(
    fields: Mapping[str, Any], wanted: Wanted, form: StreamableForm, output_tokens_max: int | None
) -> GeneratingRequest:
    """Of a body that passed its checks: an answer in text, streamed on request."""
    streaming = None
    if fields.get("stream"):
        options = fields.get("stream_options") or {}
        streaming = Streaming(form, includes_usage=bool(options.get("include_usage")))
    return GeneratingRequest(
        model=fields["model"],
        wanted=wanted,
        form=form,
        streaming=streaming,
        output_tokens_max=output_tokens_max,
        service_tier=service_tier(fields),
        end_user=fields.get("safety_identifier") or fields.get("user"),
        end_user_param="safety_identifier" if "messages" in fields else "user",
    )


def service_tier(fields: Mapping[str, Any]) -> str:
    return fields.get("service_tier") or "auto"


def outside_stream(body: dict[str, Any]) -> dict[str, Any]:
    """Every external server is asked to stream and to say its usage."""
    return body | {"stream": True, "stream_options": {"include_usage": True}}


def outside_whole(body: dict[str, Any]) -> dict[str, Any]:
    """The same body for an answer in one piece."""
    return {name: value for name, value in body.items() if name not in _STREAMED}


_STREAMED = ("stream", "stream_options")
