"""`/v1/responses` on the wire: a body checked and made the conversation that chat would have.

Stateless: nothing is kept, so whatever needs an earlier answer is refused. Nothing of a body is
dropped silently.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from gateway.call.request import GeneratingRequest
from gateway.errors import bad_request
from gateway.wire.bodies.chat_body import CHAT, ChatBody
from gateway.wire.bodies.checks import invalid_type, json_object
from gateway.wire.bodies.conversation import Conversation, generating_chat
from gateway.wire.bodies.response_format import FORM, UNFORMED
from gateway.wire.bodies.rules import (
    TEXT,
    Reader,
    as_neutral,
    described,
    elsewhere,
    in_words,
    neutral,
    object_of,
    own,
    the,
    word_of,
)
from gateway.wire.bodies.text_body import TokensMax
from gateway.wire.bodies.translation import translated_conversation
from gateway.wire.json_schema import array, as_good_as, either
from gateway.wire.responses.form import ResponseForm
from gateway.wire.responses.items import INPUT, translated
from gateway.wire.responses.tools import CHOICE, TOOLS, Toolbox, chat_tool_choice
from workers.sampling import Sampling, names

Json = dict[str, Any]
LOGPROBS = "message.output_text.logprobs"
INCLUDABLE = word_of(LOGPROBS, "reasoning.encrypted_content")
"""The second holds wherever nothing is reasoned in secret."""
FORMAT = either(
    UNFORMED,
    object_of({"type": the("json_schema")} | FORM, "type", "name", "schema").schema,
)
SUMMARY = word_of("auto", "concise", "detailed")
REASONING = object_of(
    {
        "effort": elsewhere(CHAT.schema["reasoning_effort"]),
        "summary": SUMMARY,
        "generate_summary": SUMMARY,
        "context": TEXT,
    }
)
"""Nothing here sums up what was thought: it is told whole, where a server tells it."""
TEXT_OPTIONS = object_of(
    {"format": elsewhere(FORMAT), "verbosity": elsewhere(CHAT.schema["verbosity"])}
)
STREAM_OPTIONS = object_of({"include_obfuscation": as_neutral(False)})
NO_TEMPLATES = "nor any templates; send the prompt as 'input'."
SAMPLED = tuple(name for name in names(Sampling) if name != "logit_bias")
"""OpenAI's document has no `logit_bias` here; vLLM's clients send the others."""
AS_IN_CHAT = (
    *SAMPLED,
    "model",
    "parallel_tool_calls",
    "metadata",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "service_tier",
    "stream",
    "provider",
    "disable_fallbacks",
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


def _stateless(neutral: object, why: str) -> Meta:
    def check(name: str, value: object) -> None:
        if value != neutral or type(value) is not type(neutral):
            message = f"Unsupported parameter: '{name}'. This service keeps no answers: {why}"
            raise bad_request(message, name, "unsupported_parameter")

    return own(check, as_good_as(neutral))


def _include(name: str, value: object) -> None:
    if not isinstance(value, list):
        raise invalid_type(name, "an array of strings", value)
    for index, each in enumerate(value):
        INCLUDABLE.check(f"{name}[{index}]", each)


SAY_BEFORE = _stateless(None, "send what was said before as 'input'.")


class _InputBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str
    input: Annotated[Any, described(INPUT)]
    instructions: str | None = None
    tools: Annotated[Any, described(TOOLS)] = None
    tool_choice: Annotated[Any, described(CHOICE)] = None
    parallel_tool_calls: bool | None = None
    text: Annotated[Json | None, in_words(TEXT_OPTIONS)] = None
    reasoning: Annotated[Json | None, in_words(REASONING)] = None
    truncation: Annotated[str | None, neutral("disabled")] = None
    previous_response_id: Annotated[None, SAY_BEFORE] = None
    conversation: Annotated[None, SAY_BEFORE] = None


class InputCountBody(_InputBody, frozen=True, kw_only=True):
    """OpenAI's document has these for the count of an input."""

    personality: None = None


class ResponseBody(_InputBody, frozen=True, kw_only=True):
    max_output_tokens: TokensMax | None = None
    include: Annotated[list[str] | None, own(_include, array(INCLUDABLE.schema))] = None
    top_logprobs: Annotated[int | None, in_words(CHAT.rules["top_logprobs"])] = None
    stream_options: Annotated[Json | None, in_words(STREAM_OPTIONS)] = None
    store: Annotated[bool | None, _stateless(False, "leave it out, or say false.")] = None
    background: Annotated[
        bool | None, _stateless(False, "an answer is waited for, or streamed.")
    ] = None
    prompt: Annotated[None, _stateless(None, NO_TEMPLATES)] = None
    context_management: Annotated[list[Any] | None, neutral([])] = None
    max_tool_calls: None = None
    client_metadata: Json | None = None
    moderation: None = None


COUNT = Reader(InputCountBody)
RESPONSE = Reader(ResponseBody, {name: CHAT.rules[name] for name in AS_IN_CHAT})


def parse_response(body: bytes) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields = json_object(body)
    RESPONSE.of(fields)
    _check_logprobs(fields)
    toolbox = Toolbox()
    chat, conversation = _translated(fields, toolbox)
    form = ResponseForm(fields, scored=conversation.logprobs is not None, tools=toolbox.tools)
    return generating_chat(chat, conversation, form, fields.get("max_output_tokens"))


def parse_input_count(body: bytes) -> tuple[str, Conversation]:
    """The model and the conversation whose tokens are to be counted; raises ApiError 400."""
    fields = json_object(body)
    COUNT.of(fields)
    return fields["model"], _translated(fields, Toolbox())[1]


def _translated(fields: Mapping[str, Any], toolbox: Toolbox) -> tuple[ChatBody, Conversation]:
    toolbox.add("tools", fields.get("tools"))
    translation = translated(fields.get("instructions"), fields["input"], toolbox)
    toolbox.require_more_than_search()
    chat = {name: fields[name] for name in AS_IN_CHAT if fields.get(name) is not None}
    chat["messages"] = translation.messages
    chat["tools"] = toolbox.functions
    chat["tool_choice"] = chat_tool_choice(fields.get("tool_choice"))
    chat |= _text(fields.get("text") or {}) | _logprobs(fields)
    chat["reasoning_effort"] = (fields.get("reasoning") or {}).get("effort")
    chat["max_completion_tokens"] = fields.get("max_output_tokens")
    return translated_conversation(chat, ORIGINS | toolbox.origins | translation.origins)


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
