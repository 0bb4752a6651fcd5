"""A conversation as JSON Schema, as chat has it: its messages, tools, the choice among them, and
the form of the answer. What the checks of `gateway/wire/` take, no more and no less."""

from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    STRING,
    Schema,
    array,
    const,
    either,
    objects,
    one_of,
    part,
    text,
)
from gateway.wire.conversation import METADATA_KEY_MAX, METADATA_MAX, METADATA_VALUE_MAX
from gateway.wire.tools import NAME_MAX, TOOLS_MAX

NAME = text(pattern="^[a-zA-Z0-9_-]+$", maxLength=NAME_MAX)
IMAGE_URL = text(pattern="^(https?://|data:image/)")
DETAIL = one_of(("auto", "low", "high"))
SCHEMA = ANYTHING

TEXT_PART = part({"type": const("text"), "text": STRING})
REFUSAL_PART = part({"type": const("refusal"), "refusal": STRING})
IMAGE_PART = part(
    {"type": const("image_url"), "image_url": part({"url": IMAGE_URL, "detail": DETAIL}, "detail")}
)
TEXTS = either(STRING, array(TEXT_PART, minItems=1))
SEEN = either(STRING, array(either(TEXT_PART, IMAGE_PART), minItems=1))
ANSWERED = either(STRING, array(either(TEXT_PART, REFUSAL_PART), minItems=1))
TOOL_CALL = part(
    {
        "id": STRING,
        "type": const("function"),
        "function": part({"name": NAME, "arguments": STRING}),
    }
)
TOOL_CALLS = array(TOOL_CALL, minItems=1)
ASSISTANT: dict[str, Schema] = {
    "role": const("assistant"),
    "content": ANSWERED,
    "refusal": STRING,
    "tool_calls": TOOL_CALLS,
    "name": STRING,
    "reasoning_content": STRING,
    "annotations": array(ANYTHING, maxItems=0),
    "provider_specific_fields": ANYTHING,
}
BESIDE = ("name", "reasoning_content", "annotations", "provider_specific_fields")
MESSAGE = either(
    part({"role": const("user"), "content": SEEN, "name": STRING}, "name"),
    part({"role": one_of(("system", "developer")), "content": TEXTS, "name": STRING}, "name"),
    part({"role": const("tool"), "content": TEXTS, "tool_call_id": STRING}),
    part(ASSISTANT, "refusal", "tool_calls", *BESIDE),
    part(ASSISTANT, "refusal", "content", *BESIDE),
    part(ASSISTANT, "tool_calls", "content", *BESIDE),
)
FUNCTION = part(
    {"name": NAME, "description": STRING, "parameters": SCHEMA, "strict": BOOLEAN},
    "description",
    "parameters",
    "strict",
)
TOOL = part({"type": const("function"), "function": FUNCTION})
TOOLS = array(TOOL, maxItems=TOOLS_MAX)
NAMED = part({"type": const("function"), "function": part({"name": NAME})})
MODE = one_of(("auto", "required"))
TOOL_CHOICE = either(
    one_of(("none", "auto", "required")),
    NAMED,
    part(
        {
            "type": const("allowed_tools"),
            "allowed_tools": part({"mode": MODE, "tools": array(NAMED, minItems=1)}),
        }
    ),
)
FORM: dict[str, Schema] = {
    "name": NAME,
    "description": STRING,
    "schema": SCHEMA,
    "strict": BOOLEAN,
}
RESPONSE_FORMAT = either(
    part({"type": one_of(("text", "json_object"))}),
    part(
        {"type": const("json_schema"), "json_schema": part(FORM, "description", "strict")},
    ),
)
STREAM_OPTIONS = objects(
    {"include_usage": BOOLEAN, "include_obfuscation": const(False)},
    "include_usage",
    "include_obfuscation",
    closed=True,
)
METADATA: Schema = {
    "type": "object",
    "additionalProperties": text(maxLength=METADATA_VALUE_MAX),
    "propertyNames": {"maxLength": METADATA_KEY_MAX},
    "maxProperties": METADATA_MAX,
}
