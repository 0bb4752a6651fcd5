"""`/v1/messages` as JSON Schema: what its body takes, its Message object, and its errors."""

from gateway.api.chat_shapes import IMAGE_URL, NAME
from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    NOTHING,
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
from gateway.wire.anthropic.body import TIERS, USER_ID_MAX
from gateway.wire.anthropic.tools import HOW_STREAMED
from gateway.wire.anthropic.turns import IMAGES
from gateway.wire.checks import STOP_MAX
from gateway.wire.tools import TOOLS_MAX

CACHE = part({"type": const("ephemeral"), "ttl": one_of(("5m", "1h"))}, "ttl")
TEXT = part(
    {
        "type": const("text"),
        "text": STRING,
        "citations": array(ANYTHING, maxItems=0),
        "cache_control": CACHE,
    },
    "citations",
    "cache_control",
)
TEXTS = either(STRING, array(TEXT))
USE = part(
    {
        "type": const("tool_use"),
        "id": STRING,
        "name": NAME,
        "input": ANYTHING,
        "caller": const({"type": "direct"}),
        "cache_control": CACHE,
    },
    "caller",
    "cache_control",
)
RESULT = part(
    {
        "type": const("tool_result"),
        "tool_use_id": STRING,
        "content": TEXTS,
        "is_error": BOOLEAN,
        "cache_control": CACHE,
    },
    "content",
    "is_error",
    "cache_control",
)
IMAGE = part(
    {
        "type": const("image"),
        "source": either(
            part({"type": const("base64"), "media_type": one_of(IMAGES), "data": STRING}),
            part({"type": const("url"), "url": IMAGE_URL}),
        ),
        "cache_control": CACHE,
    },
    "cache_control",
)


def _turn(role: str, *kinds: Schema) -> Schema:
    content = either(STRING, array(either(*kinds), minItems=1))
    return part({"role": const(role), "content": content})


TURN = either(
    _turn("user", TEXT, IMAGE, RESULT), _turn("assistant", TEXT, USE), _turn("system", TEXT)
)
TOOL = part(
    {
        "type": const("custom"),
        "name": NAME,
        "description": STRING,
        "input_schema": ANYTHING,
        "strict": BOOLEAN,
        "cache_control": CACHE,
        HOW_STREAMED: BOOLEAN,
    },
    "type",
    "description",
    "strict",
    "cache_control",
    HOW_STREAMED,
)
ALONE: dict[str, Schema] = {"disable_parallel_tool_use": BOOLEAN}
CHOICE = either(
    part({"type": one_of(("auto", "any"))} | ALONE, *ALONE),
    part({"type": const("tool"), "name": NAME} | ALONE, *ALONE),
    part({"type": const("none")}),
)
COUNT_BODY: dict[str, Schema] = {
    "model": STRING,
    "messages": array(TURN, minItems=1),
    "system": TEXTS,
    "tools": array(TOOL, maxItems=TOOLS_MAX),
    "tool_choice": CHOICE,
    "output_config": part(
        {"format": part({"type": const("json_schema"), "schema": ANYTHING})}, "format"
    ),
    "thinking": const({"type": "disabled"}),
    "cache_control": CACHE,
    "speed": const("standard"),
}
BODY: dict[str, Schema] = COUNT_BODY | {
    "max_tokens": between(1, 2**31, "integer"),
    "temperature": between(0, 1),
    "top_p": between(0, 1),
    "top_k": NOTHING,
    "stop_sequences": array(text(minLength=1), maxItems=STOP_MAX),
    "stream": BOOLEAN,
    "metadata": part({"user_id": text(maxLength=USER_ID_MAX)}, "user_id"),
    "service_tier": one_of(TIERS),
    "container": NOTHING,
    "inference_geo": NOTHING,
}
USED = objects({"type": const("tool_use"), "id": STRING, "name": STRING, "input": ANYTHING})
ANSWER = objects(
    {
        "id": STRING,
        "type": const("message"),
        "role": const("assistant"),
        "model": STRING,
        "content": array(either(objects({"type": const("text"), "text": STRING}), USED)),
        "stop_reason": one_of(("end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal")),
        "stop_sequence": maybe(STRING),
        "usage": objects(
            {
                "input_tokens": COUNT,
                "cache_creation_input_tokens": COUNT,
                "cache_read_input_tokens": COUNT,
                "output_tokens": COUNT,
                "service_tier": one_of(("standard", "priority")),
                "cost": USD,
            }
        ),
    }
)
COUNTED = objects({"input_tokens": COUNT})
ERROR = objects(
    {
        "type": const("error"),
        "error": objects({"type": STRING, "message": STRING}),
        "request_id": STRING,
    }
)
