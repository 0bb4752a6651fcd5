"""`/v1/responses` as JSON Schema: what its body takes, and its Response object."""

from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    INTEGER,
    NUMBER,
    STRING,
    USD,
    Schema,
    array,
    between,
    const,
    either,
    maybe,
    objects,
    one_of,
)
from gateway.wire.checks import SERVICE_TIERS

STRINGS: Schema = {"type": "object", "additionalProperties": STRING, "maxProperties": 16}
STATUS = one_of(("in_progress", "completed", "incomplete"))
FUNCTION = objects(
    {
        "type": const("function"),
        "name": STRING,
        "description": maybe(STRING),
        "parameters": maybe(ANYTHING),
        "strict": maybe(BOOLEAN),
    },
    "description",
    "parameters",
    "strict",
)
FORMAT = either(
    objects({"type": one_of(("text", "json_object"))}),
    objects(
        {
            "type": const("json_schema"),
            "name": STRING,
            "description": STRING,
            "schema": ANYTHING,
            "strict": maybe(BOOLEAN),
        },
        "description",
        "strict",
    ),
)
CHOICE = either(
    one_of(("none", "auto", "required")),
    objects({"type": const("function"), "name": STRING}),
    objects(
        {
            "type": const("allowed_tools"),
            "mode": one_of(("auto", "required")),
            "tools": array(objects({"type": const("function"), "name": STRING})),
        }
    ),
)
TEXT_PART = objects({"type": one_of(("input_text", "output_text")), "text": STRING})
IMAGE_PART = objects(
    {"type": const("input_image"), "image_url": STRING, "detail": STRING}, "detail"
)
THOUGHT = array(objects({"type": const("reasoning_text"), "text": STRING}))
ITEM = either(
    objects(
        {
            "type": const("message"),
            "role": one_of(("user", "assistant", "system", "developer")),
            "content": either(STRING, array(either(TEXT_PART, IMAGE_PART))),
        },
        "type",
    ),
    objects({"type": const("reasoning"), "content": THOUGHT}),
    objects(
        {"type": const("function_call"), "call_id": STRING, "name": STRING, "arguments": STRING}
    ),
    objects(
        {
            "type": const("function_call_output"),
            "call_id": STRING,
            "output": either(STRING, array(TEXT_PART)),
        }
    ),
)
BODY: dict[str, Schema] = {
    "model": STRING,
    "service_tier": one_of(SERVICE_TIERS),
    "user": STRING,
    "input": either(STRING, array(ITEM, minItems=1)),
    "instructions": STRING,
    "max_output_tokens": between(1, 2**31, "integer"),
    "temperature": between(0, 2),
    "top_p": between(0, 1),
    "tools": array(FUNCTION),
    "tool_choice": CHOICE,
    "parallel_tool_calls": BOOLEAN,
    "text": objects({"format": FORMAT, "verbosity": STRING}, "format", "verbosity"),
    "reasoning": objects({"effort": STRING}, "effort"),
    "metadata": STRINGS,
    "safety_identifier": STRING,
    "prompt_cache_key": STRING,
    "stream": BOOLEAN,
    "stream_options": objects({"include_obfuscation": const(False)}, "include_obfuscation"),
    "include": array(STRING),
    "top_logprobs": between(0, 20, "integer"),
    "truncation": const("disabled"),
    "store": const(False),
    "background": const(False),
    "previous_response_id": ANYTHING,
    "conversation": ANYTHING,
    "prompt": ANYTHING,
    "context_management": array(ANYTHING),
    "max_tool_calls": INTEGER,
    "moderation": ANYTHING,
    "prompt_cache_options": ANYTHING,
    "prompt_cache_retention": STRING,
}
PART = either(
    objects(
        {
            "type": const("output_text"),
            "text": STRING,
            "annotations": array(ANYTHING),
            "logprobs": array(ANYTHING),
        }
    ),
    objects({"type": const("refusal"), "refusal": STRING}),
)
OUTPUT = either(
    objects(
        {
            "id": STRING,
            "type": const("reasoning"),
            "status": STATUS,
            "summary": array(ANYTHING),
            "content": THOUGHT,
        }
    ),
    objects(
        {
            "id": STRING,
            "type": const("message"),
            "status": STATUS,
            "role": const("assistant"),
            "content": array(PART),
        }
    ),
    objects(
        {
            "id": STRING,
            "type": const("function_call"),
            "status": STATUS,
            "call_id": STRING,
            "name": STRING,
            "arguments": STRING,
        }
    ),
)
USAGE = objects(
    {
        "input_tokens": COUNT,
        "input_tokens_details": objects({"cached_tokens": COUNT, "cache_write_tokens": COUNT}),
        "output_tokens": COUNT,
        "output_tokens_details": objects({"reasoning_tokens": COUNT}),
        "total_tokens": COUNT,
        "cost": USD,
    }
)
ANSWER = objects(
    {
        "id": STRING,
        "object": const("response"),
        "created_at": INTEGER,
        "status": STATUS,
        "error": maybe(ANYTHING),
        "incomplete_details": maybe(
            objects({"reason": one_of(("max_output_tokens", "content_filter"))})
        ),
        "instructions": maybe(STRING),
        "max_output_tokens": maybe(INTEGER),
        "metadata": STRINGS,
        "model": STRING,
        "output": array(OUTPUT),
        "parallel_tool_calls": BOOLEAN,
        "service_tier": one_of(("default", "priority", "flex")),
        "store": const(False),
        "temperature": NUMBER,
        "text": ANYTHING,
        "tool_choice": CHOICE,
        "tools": array(FUNCTION),
        "top_p": NUMBER,
        "usage": USAGE,
    }
)
