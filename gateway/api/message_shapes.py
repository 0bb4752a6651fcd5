"""`/v1/messages` as JSON Schema: what its body takes, its Message object, and its errors."""

from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
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

CACHE = objects({"type": const("ephemeral"), "ttl": one_of(("5m", "1h"))}, "ttl")
TEXT = objects(
    {"type": const("text"), "text": STRING, "cache_control": maybe(CACHE)}, "cache_control"
)
TEXTS = either(STRING, array(TEXT))
USE = objects({"type": const("tool_use"), "id": STRING, "name": STRING, "input": ANYTHING})
RESULT = objects(
    {
        "type": const("tool_result"),
        "tool_use_id": STRING,
        "content": TEXTS,
        "is_error": BOOLEAN,
    },
    "content",
    "is_error",
)
IMAGE = objects(
    {
        "type": const("image"),
        "source": either(
            objects({"type": const("base64"), "media_type": STRING, "data": STRING}),
            objects({"type": const("url"), "url": STRING}),
        ),
    }
)
TURN = objects(
    {
        "role": one_of(("user", "assistant", "system")),
        "content": either(STRING, array(either(TEXT, IMAGE, USE, RESULT))),
    }
)
TOOL = objects(
    {
        "type": const("custom"),
        "name": STRING,
        "description": STRING,
        "input_schema": ANYTHING,
        "strict": BOOLEAN,
        "cache_control": maybe(CACHE),
    },
    "type",
    "description",
    "strict",
    "cache_control",
)
ALONE: dict[str, Schema] = {"disable_parallel_tool_use": BOOLEAN}
CHOICE = either(
    objects({"type": one_of(("auto", "any"))} | ALONE, *ALONE),
    objects({"type": const("tool"), "name": STRING} | ALONE, *ALONE),
    objects({"type": const("none")}),
)
COUNT_BODY: dict[str, Schema] = {
    "model": STRING,
    "messages": array(TURN, minItems=1),
    "system": TEXTS,
    "tools": array(TOOL),
    "tool_choice": CHOICE,
    "output_config": objects(
        {"format": objects({"type": const("json_schema"), "schema": ANYTHING})}, "format"
    ),
    "thinking": objects({"type": const("disabled")}),
    "cache_control": CACHE,
    "speed": const("standard"),
}
BODY: dict[str, Schema] = COUNT_BODY | {
    "max_tokens": between(1, 2**31, "integer"),
    "temperature": between(0, 1),
    "top_p": between(0, 1),
    "top_k": ANYTHING,
    "stop_sequences": array(STRING),
    "stream": BOOLEAN,
    "metadata": objects({"user_id": maybe(STRING)}, "user_id", closed=True),
    "service_tier": one_of(("auto", "standard_only")),
    "container": ANYTHING,
    "inference_geo": ANYTHING,
}
ANSWER = objects(
    {
        "id": STRING,
        "type": const("message"),
        "role": const("assistant"),
        "model": STRING,
        "content": array(either(objects({"type": const("text"), "text": STRING}), USE)),
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
