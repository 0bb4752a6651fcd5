"""`/v1/messages` on the wire: a body checked and made the conversation that chat would have.

Nothing of a body is dropped silently.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from gateway.call.request import GeneratingRequest
from gateway.errors import ApiError
from gateway.wire.anthropic.blocks import TEXTS, TURNS, CacheControl
from gateway.wire.anthropic.form import MessageForm
from gateway.wire.anthropic.hints import Edits, Thinking, chat_effort, tells_thoughts
from gateway.wire.anthropic.tools import (
    CHOICE,
    OUTPUT,
    TOOLS,
    chat_format,
    chat_tool_choice,
    chat_tools,
)
from gateway.wire.anthropic.turns import translated
from gateway.wire.bodies.chat_body import ChatBody
from gateway.wire.bodies.checks import STOP_MAX, invalid_type, json_object
from gateway.wire.bodies.conversation import Conversation, generating_chat
from gateway.wire.bodies.provider import PROVIDER
from gateway.wire.bodies.rules import (
    Reader,
    described,
    in_words,
    neutral,
    object_of,
    own,
    text_of,
)
from gateway.wire.bodies.steering import STEERED
from gateway.wire.bodies.text_body import TokensMax
from gateway.wire.bodies.translation import translated_conversation
from gateway.wire.json_schema import array, text

TIERS = {"auto": "auto", "standard_only": "default"}
STOPS = array(text(minLength=1), maxItems=STOP_MAX)
SHARE = in_words(STEERED["top_p"])
METADATA = object_of({"user_id": text_of(256)})
ORIGINS = {
    "stop": "stop_sequences",
    "response_format.json_schema": "output_config.format",
    "response_format": "output_config.format",
    "tools[*].function.parameters": "tools[*].input_schema",
    "tools[*].function": "tools[*]",
    "tool_choice.function": "tool_choice",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}


def _strings(name: str, value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise invalid_type(name, "an array of non-empty strings", value)


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str
    system: Annotated[Any, described(TEXTS.schema)] = None
    tools: Annotated[Any, described(TOOLS)] = None
    tool_choice: Annotated[Any, described(CHOICE.schema)] = None
    output_config: Annotated[Any, described(OUTPUT.schema)] = None
    thinking: Thinking | None = None
    context_management: Edits | None = None
    cache_control: CacheControl | None = None
    speed: Annotated[str | None, neutral("standard")] = None


class CountBody(_Body, frozen=True, kw_only=True):
    messages: Annotated[Any, described(TURNS.schema)]


class MessageBody(_Body, frozen=True, kw_only=True):
    max_tokens: TokensMax
    messages: Annotated[Any, described(TURNS.schema)]
    temperature: Annotated[float | None, SHARE] = None
    top_p: Annotated[float | None, SHARE] = None
    top_k: None = None
    stop_sequences: Annotated[list[str] | None, own(_strings, STOPS)] = None
    stream: bool | None = None
    metadata: Annotated[dict[str, str] | None, in_words(METADATA)] = None
    service_tier: Literal["auto", "standard_only"] | None = None
    container: None = None
    inference_geo: None = None
    mcp_servers: Annotated[list[Any] | None, neutral([])] = None
    provider: Annotated[dict[str, Any] | None, in_words(PROVIDER)] = None
    disable_fallbacks: bool | None = None


MESSAGE, COUNT = Reader(MessageBody), Reader(CountBody)


def parse_message(body: bytes) -> GeneratingRequest:
    """Raises ApiError 400 naming the field."""
    try:
        fields, _ = MESSAGE.read(body)
    except ApiError as refused:
        if json_object(body).get("thread") is not None:
            raise _threaded() from refused
        raise
    user = (fields.metadata or {}).get("user_id")
    tier = None if fields.service_tier is None else TIERS[fields.service_tier]
    more = {
        "max_tokens": fields.max_tokens,
        "temperature": fields.temperature,
        "top_p": fields.top_p,
        "stream": fields.stream,
        "stop": fields.stop_sequences or None,
        "user": user,
        "service_tier": tier,
        "provider": fields.provider,
        "disable_fallbacks": fields.disable_fallbacks,
    }
    chat, conversation = _translated(fields, more)
    form = MessageForm(
        stops=tuple(fields.stop_sequences or ()),
        tells_thoughts=tells_thoughts(fields.thinking),
        tells_edits=fields.context_management is not None,
    )
    return generating_chat(chat, conversation, form, fields.max_tokens, "metadata.user_id")


def parse_count(body: bytes) -> tuple[str, Conversation]:
    """The model and the conversation whose tokens are to be counted; raises ApiError 400."""
    fields, _ = COUNT.read(body)
    return fields.model, _translated(fields, {})[1]


def _translated(
    fields: CountBody | MessageBody, more: Mapping[str, Any]
) -> tuple[ChatBody, Conversation]:
    turns = translated(fields.system, fields.messages)
    chat = {
        "model": fields.model,
        **more,
        "messages": turns.messages,
        "tools": chat_tools(fields.tools),
        **chat_tool_choice(fields.tool_choice),
        **chat_format(fields.output_config),
        **chat_effort(fields.thinking, fields.output_config),
    }
    return translated_conversation(chat, ORIGINS | turns.origins)


def _threaded() -> ApiError:
    """In the words by which Anthropic's own clients know to send the whole conversation."""
    message = "This service keeps no threads: send the full conversation without 'thread'."
    details = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    return ApiError(400, message, param="thread", details=details)
