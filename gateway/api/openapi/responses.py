"""`/v1/responses` as JSON Schema: its Response object."""

from gateway.wire.bodies.chat_body import METADATA
from gateway.wire.json_schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    INTEGER,
    NUMBER,
    STRING,
    USD,
    Schema,
    array,
    const,
    either,
    maybe,
    objects,
    one_of,
)
from gateway.wire.responses.items import THOUGHTS
from gateway.wire.responses.parts import STATUS
from gateway.wire.responses.past_calls import ACTION
from gateway.wire.responses.tools import CHOICE, SHELL

SHOWN = either(
    objects(
        {
            "type": const("function"),
            "name": STRING,
            "description": maybe(STRING),
            "parameters": maybe(ANYTHING),
            "strict": maybe(BOOLEAN),
        },
        *("description", "parameters", "strict"),
    ),
    objects({"type": one_of(("custom", "namespace", SHELL))}),
)
ITEM: dict[str, Schema] = {"id": STRING, "status": STATUS.schema, "call_id": STRING}
CALL: dict[str, Schema] = ITEM | {"name": STRING, "namespace": STRING}
CALLS = (
    objects(CALL | {"type": const("function_call"), "arguments": STRING}, "namespace"),
    objects(CALL | {"type": const("custom_tool_call"), "input": STRING}, "namespace"),
    objects(ITEM | {"type": const("local_shell_call"), "action": ACTION}),
)

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
            "status": STATUS.schema,
            "summary": array(ANYTHING),
            "content": THOUGHTS.schema,
        }
    ),
    objects(
        {
            "id": STRING,
            "type": const("message"),
            "status": STATUS.schema,
            "role": const("assistant"),
            "content": array(PART),
        }
    ),
    *CALLS,
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
        "completed_at": maybe(INTEGER),
        "status": STATUS.schema,
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
        "presence_penalty": NUMBER,
        "frequency_penalty": NUMBER,
        "service_tier": one_of(("default", "priority", "flex")),
        "store": const(False),
        "temperature": NUMBER,
        "text": ANYTHING,
        "tool_choice": CHOICE,
        "tools": array(SHOWN),
        "top_p": NUMBER,
        "usage": USAGE,
    }
)
