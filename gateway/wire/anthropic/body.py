"""`/v1/messages` on the wire: a body checked and made the conversation that chat would have.

Nothing of a body is dropped silently.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from gateway.errors import bad_request
from gateway.wire.anthropic.form import MessageForm
from gateway.wire.anthropic.tools import chat_format, chat_tool_choice, chat_tools
from gateway.wire.anthropic.turns import cache_control, translated
from gateway.wire.checks import (
    Check,
    boolean,
    check_fields,
    integer,
    invalid_type,
    json_object,
    missing,
    number,
    one_of,
    only,
    require_known,
    string,
    text_up_to,
)
from gateway.wire.conversation import Conversation
from gateway.wire.request import GeneratingRequest, generating
from gateway.wire.translated import translated_conversation

USER_ID_MAX = 256
TIERS = {"auto": "auto", "standard_only": "default"}
AS_IN_CHAT = ("model", "max_tokens", "temperature", "top_p", "stream")
ORIGINS = {
    "stop": "stop_sequences",
    "response_format.json_schema": "output_config.format",
    "response_format": "output_config.format",
    "tools[*].function.parameters": "tools[*].input_schema",
    "tools[*].function": "tools[*]",
    "tool_choice.function": "tool_choice",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
}


def parse_message(body: bytes) -> GeneratingRequest:
    """Raises ApiError 400 naming the field."""
    fields = json_object(body)
    check_fields(fields, CHECKS, "model", "max_tokens")
    chat, wanted = _translated(fields)
    form = MessageForm(stops=tuple(fields.get("stop_sequences") or ()))
    request = generating(chat, wanted, form, fields["max_tokens"])
    return replace(request, end_user_param="metadata.user_id")


def parse_count(body: bytes) -> tuple[str, Conversation]:
    """The model and the conversation whose tokens are to be counted; raises ApiError 400."""
    fields = json_object(body)
    check_fields(fields, COUNTED, "model")
    return fields["model"], _translated(fields)[1]


def _translated(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Conversation]:
    if fields.get("messages") is None:
        raise missing("messages")
    turns = translated(fields.get("system"), fields["messages"])
    chat = {name: fields[name] for name in AS_IN_CHAT if fields.get(name) is not None}
    chat |= {"messages": turns.messages, "tools": chat_tools(fields.get("tools"))}
    chat |= chat_tool_choice(fields.get("tool_choice")) | chat_format(fields.get("output_config"))
    chat["stop"] = fields.get("stop_sequences") or None
    chat["user"] = (fields.get("metadata") or {}).get("user_id")
    chat["service_tier"] = TIERS[fields.get("service_tier") or "auto"]
    return chat, translated_conversation(chat, ORIGINS | turns.origins)


def _metadata(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    require_known(name, value, "user_id")
    if value.get("user_id") is not None:
        text_up_to(USER_ID_MAX)(f"{name}.user_id", value["user_id"])


def _thinking(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    if value != {"type": "disabled"}:
        message = "No model here thinks before it answers: 'thinking' may only be 'disabled'."
        raise bad_request(message, f"{name}.type", "unsupported_value")


def _strings(name: str, value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise invalid_type(name, "an array of non-empty strings", value)


def _anything(name: str, value: object) -> None:
    """Checked where it is translated."""


COUNTED: dict[str, Check] = {
    "model": string,
    "messages": _anything,
    "system": _anything,
    "tools": _anything,
    "tool_choice": _anything,
    "output_config": _anything,
    "thinking": _thinking,
    "cache_control": cache_control,
    "speed": only("standard"),
}
CHECKS: dict[str, Check] = COUNTED | {
    "max_tokens": integer(1, 2**31),
    "temperature": number(0, 1),
    "top_p": number(0, 1),
    "top_k": only(None),
    "stop_sequences": _strings,
    "stream": boolean,
    "metadata": _metadata,
    "service_tier": one_of(*TIERS),
    "container": only(None),
    "inference_geo": only(None),
}
