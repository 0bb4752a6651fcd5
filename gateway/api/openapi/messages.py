"""`/v1/messages` as JSON Schema: its Message object, and its errors."""

from gateway.wire.json_schema import (
    ANYTHING,
    COUNT,
    STRING,
    USD,
    array,
    const,
    either,
    maybe,
    objects,
    one_of,
)

USED = objects({"type": const("tool_use"), "id": STRING, "name": STRING, "input": ANYTHING})
ANSWER = objects(
    {
        "id": STRING,
        "type": const("message"),
        "role": const("assistant"),
        "model": STRING,
        "content": array(
            either(
                objects({"type": const("text"), "text": STRING}),
                objects({"type": const("thinking"), "thinking": STRING, "signature": STRING}),
                USED,
            )
        ),
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
ERROR = objects(
    {
        "type": const("error"),
        "error": objects({"type": STRING, "message": STRING, "details": ANYTHING}, "details"),
        "request_id": STRING,
    }
)
