"""`/v1/responses` as JSON Schema: what its body takes, and its Response object."""

from gateway.api.chat_shapes import (
    DETAIL,
    FORM,
    IMAGE_URL,
    METADATA,
    MODE,
    NAME,
    REFUSAL_PART,
)
from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    INTEGER,
    NOTHING,
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
    part,
    text,
)
from gateway.wire.checks import SERVICE_TIERS, USER_MAX
from gateway.wire.conversation import (
    PROMPT_CACHE_KEY_MAX,
    SAFETY_IDENTIFIER_MAX,
    TOP_LOGPROBS_MAX,
)
from gateway.wire.responses.body import INCLUDABLE
from gateway.wire.responses.items import CALL_ID_MAX
from gateway.wire.tools import TOOLS_MAX

STATUS = one_of(("in_progress", "completed", "incomplete"))
FUNCTION = part(
    {
        "type": const("function"),
        "name": NAME,
        "description": STRING,
        "parameters": ANYTHING,
        "strict": BOOLEAN,
    },
    "description",
    "parameters",
    "strict",
)
FORMAT = either(
    part({"type": one_of(("text", "json_object"))}),
    part({"type": const("json_schema")} | FORM, "description", "strict"),
)
NAMED = part({"type": const("function"), "name": NAME})
CHOICE = either(
    one_of(("none", "auto", "required")),
    NAMED,
    part({"type": const("allowed_tools"), "mode": MODE, "tools": array(NAMED, minItems=1)}),
)
LIKELY: dict[str, Schema] = {
    "token": STRING,
    "logprob": NUMBER,
    "bytes": maybe(array(between(0, 255, "integer"))),
}
SCORES = array(
    objects(LIKELY | {"top_logprobs": array(objects(LIKELY, "bytes"))}, "bytes", "top_logprobs")
)
ASKED_PART = part({"type": const("input_text"), "text": STRING})
IMAGE_PART = part(
    {"type": const("input_image"), "image_url": IMAGE_URL, "detail": DETAIL}, "detail"
)
ANSWERED_PART = part(
    {
        "type": const("output_text"),
        "text": STRING,
        "annotations": array(ANYTHING, maxItems=0),
        "logprobs": SCORES,
    },
    "annotations",
    "logprobs",
)


def _content(*kinds: Schema) -> Schema:
    return either(STRING, array(either(*kinds), minItems=1))


SAID_BY = (
    ("user", _content(ASKED_PART, IMAGE_PART)),
    ("assistant", _content(ANSWERED_PART, REFUSAL_PART)),
    ("system", _content(ASKED_PART)),
    ("developer", _content(ASKED_PART)),
)
BOOKED: dict[str, Schema] = {"id": STRING, "status": STATUS}
"""What an earlier answer said of its own items."""
CALL_ID = text(maxLength=CALL_ID_MAX)
THOUGHT = array(part({"type": const("reasoning_text"), "text": STRING}), minItems=1)
ITEM = either(
    *(
        part(
            BOOKED | {"type": const("message"), "role": const(role), "content": content},
            "type",
            *BOOKED,
        )
        for role, content in SAID_BY
    ),
    part(
        BOOKED
        | {
            "type": const("reasoning"),
            "content": THOUGHT,
            "summary": array(ANYTHING, maxItems=0),
        },
        "summary",
        *BOOKED,
    ),
    part(
        BOOKED
        | {
            "type": const("function_call"),
            "call_id": CALL_ID,
            "name": NAME,
            "arguments": STRING,
        },
        *BOOKED,
    ),
    part(
        BOOKED
        | {
            "type": const("function_call_output"),
            "call_id": CALL_ID,
            "output": _content(ASKED_PART),
        },
        *BOOKED,
    ),
)
BODY: dict[str, Schema] = {
    "model": STRING,
    "service_tier": one_of(SERVICE_TIERS),
    "user": text(maxLength=USER_MAX),
    "input": either(STRING, array(ITEM, minItems=1)),
    "instructions": STRING,
    "max_output_tokens": between(1, 2**31, "integer"),
    "temperature": between(0, 2),
    "top_p": between(0, 1),
    "tools": array(FUNCTION, maxItems=TOOLS_MAX),
    "tool_choice": CHOICE,
    "parallel_tool_calls": BOOLEAN,
    "text": part({"format": FORMAT, "verbosity": const("medium")}, "format", "verbosity"),
    "reasoning": part({"effort": const("none")}, "effort"),
    "metadata": METADATA,
    "safety_identifier": text(maxLength=SAFETY_IDENTIFIER_MAX),
    "prompt_cache_key": text(maxLength=PROMPT_CACHE_KEY_MAX),
    "stream": BOOLEAN,
    "stream_options": part({"include_obfuscation": const(False)}, "include_obfuscation"),
    "include": array(one_of(INCLUDABLE)),
    "top_logprobs": between(0, TOP_LOGPROBS_MAX, "integer"),
    "truncation": const("disabled"),
    "store": const(False),
    "background": const(False),
    "previous_response_id": NOTHING,
    "conversation": NOTHING,
    "prompt": NOTHING,
    "context_management": const([]),
    "max_tool_calls": NOTHING,
    "moderation": NOTHING,
    "prompt_cache_options": NOTHING,
    "prompt_cache_retention": const("in_memory"),
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
        "metadata": METADATA,
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
