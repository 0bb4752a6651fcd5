"""`/v1/responses` on the wire: a body checked and made the conversation that chat would have.

Stateless: nothing is kept, so whatever needs an earlier answer is refused. Nothing of a body is
dropped silently.
"""

from collections.abc import Mapping
from typing import Any

from gateway.errors import bad_request
from gateway.wire.checks import (
    Check,
    check_fields,
    integer,
    invalid_type,
    json_object,
    missing,
    one_of,
    only,
    require_known,
    string,
    unsupported,
)
from gateway.wire.conversation import CHECKS as CHAT
from gateway.wire.conversation import TOP_LOGPROBS_MAX
from gateway.wire.request import GeneratingRequest, generating
from gateway.wire.responses.form import ResponseForm
from gateway.wire.responses.items import translated
from gateway.wire.responses.tools import chat_tool_choice, chat_tools
from gateway.wire.translated import translated_conversation

LOGPROBS = "message.output_text.logprobs"
INCLUDABLE = (LOGPROBS, "reasoning.encrypted_content")
"""The second holds wherever nothing is reasoned in secret."""
AS_IN_CHAT = (
    "model",
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
    "stream",
)
ORIGINS = {
    "messages": "input",
    "max_completion_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "tools[*].function": "tools[*]",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    "verbosity": "text.verbosity",
    "reasoning_effort": "reasoning.effort",
    "tool_choice.function": "tool_choice",
    "tool_choice.allowed_tools.tools[*].function": "tool_choice.tools[*]",
    "tool_choice.allowed_tools": "tool_choice",
}


def parse_response(body: bytes) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields = json_object(body)
    check_fields(fields, CHECKS, "model")
    if fields.get("input") is None:
        raise missing("input")
    _check_logprobs(fields)
    said = translated(fields.get("instructions"), fields["input"])
    chat = {name: fields[name] for name in AS_IN_CHAT if fields.get(name) is not None}
    chat["messages"] = said.messages
    chat["tools"] = chat_tools(fields.get("tools"))
    chat["tool_choice"] = chat_tool_choice(fields.get("tool_choice"))
    chat |= _text(fields.get("text") or {}) | _logprobs(fields)
    chat["reasoning_effort"] = (fields.get("reasoning") or {}).get("effort")
    chat["max_completion_tokens"] = fields.get("max_output_tokens")
    wanted = translated_conversation(chat, ORIGINS | said.origins)
    form = ResponseForm(fields, scored=wanted.logprobs is not None)
    return generating(chat, wanted, form, fields.get("max_output_tokens"))


def _check_logprobs(fields: Mapping[str, Any]) -> None:
    if fields.get("top_logprobs") and LOGPROBS not in (fields.get("include") or ()):
        message = f"'top_logprobs' is only allowed when '{LOGPROBS}' is in 'include'."
        raise bad_request(message, "top_logprobs", "invalid_value")


def _logprobs(fields: Mapping[str, Any]) -> dict[str, Any]:
    if LOGPROBS not in (fields.get("include") or ()):
        return {}
    return {"logprobs": True, "top_logprobs": fields.get("top_logprobs")}


def _text(text: Mapping[str, Any]) -> dict[str, Any]:
    form = text.get("format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        schema = {name: value for name, value in form.items() if name != "type"}
        form = {"type": "json_schema", "json_schema": schema}
    return {"response_format": form, "verbosity": text.get("verbosity")}


def _object_of(*known: str) -> Check:
    def check(name: str, value: object) -> None:
        if not isinstance(value, dict):
            raise invalid_type(name, "an object", value)
        require_known(name, value, *known)

    return check


def _stateless(neutral: object, why: str) -> Check:
    def check(name: str, value: object) -> None:
        if value != neutral or type(value) is not type(neutral):
            message = f"Unsupported parameter: '{name}'. This service keeps no answers: {why}"
            raise bad_request(message, name, "unsupported_parameter")

    return check


def _reasoning(name: str, value: object) -> None:
    _object_of("effort", "summary")(name, value)
    if isinstance(value, dict) and value.get("summary") is not None:
        raise unsupported(f"{name}.summary")


def _include(name: str, value: object) -> None:
    if not isinstance(value, list):
        raise invalid_type(name, "an array of strings", value)
    for index, each in enumerate(value):
        one_of(*INCLUDABLE)(f"{name}[{index}]", each)


def _stream_options(name: str, value: object) -> None:
    _object_of("include_obfuscation")(name, value)
    if isinstance(value, dict) and value.get("include_obfuscation") is not None:
        only(False)(f"{name}.include_obfuscation", value["include_obfuscation"])


def _anything(name: str, value: object) -> None:
    """Checked where it is translated."""


CHECKS: dict[str, Check] = {name: CHAT[name] for name in AS_IN_CHAT} | {
    "input": _anything,
    "instructions": string,
    "max_output_tokens": integer(1, 2**31),
    "tools": _anything,
    "tool_choice": _anything,
    "text": _object_of("format", "verbosity"),
    "reasoning": _reasoning,
    "include": _include,
    "top_logprobs": integer(0, TOP_LOGPROBS_MAX),
    "stream_options": _stream_options,
    "truncation": only("disabled"),
    "store": _stateless(False, "leave it out, or say false."),
    "background": _stateless(False, "an answer is waited for, or streamed."),
    "previous_response_id": _stateless(None, "send what was said before as 'input'."),
    "conversation": _stateless(None, "send what was said before as 'input'."),
    "prompt": _stateless(None, "nor any templates; send the prompt as 'input'."),
    "context_management": only([]),
    "max_tool_calls": only(None),
    "moderation": only(None),
    "prompt_cache_options": only(None),
    "prompt_cache_retention": only("in_memory"),
}
