"""The body of `/v1/chat/completions`, which is also what other routes with messages make of
theirs."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.errors import bad_request
from gateway.wire.bodies.checks import invalid_type, only, text_up_to
from gateway.wire.bodies.messages import Messages
from gateway.wire.bodies.ollama import OLLAMA
from gateway.wire.bodies.prompts import check_own_tokens
from gateway.wire.bodies.response_format import ResponseFormat
from gateway.wire.bodies.rules import Reader, in_words, object_of, own, text_of, word_of
from gateway.wire.bodies.steering import (
    NOT_DONE,
    NOT_DONE_IN_CHAT,
    RENDERED,
    STEERED,
    require_sensible,
    require_sensible_chat,
)
from gateway.wire.bodies.text_body import GeneratedBody, TokensMax, require_together
from gateway.wire.bodies.tools import ToolChoice, Tools, require_offered
from gateway.wire.json_schema import Schema, text
from gateway.wire.json_schema import one_of as enumerated

METADATA_MAX, METADATA_KEY_MAX, METADATA_VALUE_MAX = 16, 64, 512
METADATA: Schema = {
    "type": "object",
    "additionalProperties": text(maxLength=METADATA_VALUE_MAX),
    "propertyNames": {"maxLength": METADATA_KEY_MAX},
    "maxProperties": METADATA_MAX,
}
CACHE_OPTIONS = object_of({"mode": word_of("implicit", "explicit"), "ttl": text_of(16)})
"""A wish for what is done anyhow: every prefix is looked for in the cache."""


def _metadata(name: str, value: object) -> None:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise invalid_type(name, "an object with string values", value)
    if len(value) > METADATA_MAX:
        raise bad_request(f"'{name}' takes at most {METADATA_MAX} pairs.", name, "invalid_value")
    for key, label in value.items():
        if len(key) > METADATA_KEY_MAX:
            message = f"A key of '{name}' is longer than {METADATA_KEY_MAX} characters."
            raise bad_request(message, name, "invalid_value")
        text_up_to(METADATA_VALUE_MAX)(f"{name}.{key}", label)


class ChatBody(GeneratedBody, frozen=True, kw_only=True):
    messages: Messages
    max_completion_tokens: TokensMax | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    safety_identifier: Annotated[str, Meta(max_length=64)] | None = None
    metadata: Annotated[dict[str, str] | None, own(_metadata, METADATA)] = None
    response_format: ResponseFormat | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    function_call: Annotated[
        str | None, own(only("none", "auto"), enumerated(("none", "auto")))
    ] = None
    reasoning_effort: (
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra"] | None
    ) = None
    verbosity: Literal["low", "medium", "high"] | None = None
    thinking: dict[str, Any] | None = None
    prompt_cache_key: Annotated[str, Meta(max_length=64)] | None = None
    prompt_cache_options: Annotated[dict[str, Any] | None, in_words(CACHE_OPTIONS)] = None
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"] | None = None


CHAT = Reader(ChatBody, STEERED | RENDERED | NOT_DONE | NOT_DONE_IN_CHAT | OLLAMA)


def read_chat(fields: Mapping[str, Any]) -> ChatBody:
    """Of fields that another route has; raises ApiError 400 naming the parameter."""
    body = CHAT.of(fields)
    require_agreement(body)
    return body


def require_agreement(body: ChatBody) -> None:
    """Raises ApiError 400 where fields contradict each other."""
    require_together(body, "stream_options", "stream")
    if body.top_logprobs:
        require_together(body, "top_logprobs", "logprobs")
    require_offered(body.tools, body.tool_choice)
    check_own_tokens(body)
    require_sensible(body, body.max_completion_tokens or body.max_tokens)
    require_sensible_chat(body)
