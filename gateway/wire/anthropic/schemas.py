"""What a body of `/v1/messages` holds, as JSON Schema: its turns, tools and the choice among them,
as `turns.py`, `tools.py` and `hints.py` read them."""

from gateway.wire.anthropic.hints import EFFORTS
from gateway.wire.anthropic.tools import OFFERED
from gateway.wire.anthropic.turns import CACHE as CACHED
from gateway.wire.anthropic.turns import IMAGES
from gateway.wire.bodies.messages import IMAGE_URL
from gateway.wire.bodies.tools import NAME_SCHEMA, TOOLS_MAX
from gateway.wire.json_schema import (
    ANYTHING,
    BOOLEAN,
    STRING,
    Schema,
    array,
    const,
    either,
    one_of,
    part,
)

CACHE = CACHED.schema
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
        "name": NAME_SCHEMA,
        "input": ANYTHING,
        "caller": const({"type": "direct"}),
        "cache_control": CACHE,
    },
    "caller",
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
RESULT = part(
    {
        "type": const("tool_result"),
        "tool_use_id": STRING,
        "content": either(STRING, array(either(TEXT, IMAGE))),
        "is_error": BOOLEAN,
        "cache_control": CACHE,
    },
    "content",
    "is_error",
    "cache_control",
)
THOUGHT = part({"type": const("thinking"), "thinking": STRING, "signature": STRING}, "signature")
REDACTED = part({"type": const("redacted_thinking"), "data": STRING})


def _turn(role: str, *kinds: Schema) -> Schema:
    content = either(STRING, array(either(*kinds), minItems=1))
    return part({"role": const(role), "content": content})


TURN = either(
    _turn("user", TEXT, IMAGE, RESULT),
    _turn("assistant", TEXT, USE, THOUGHT, REDACTED),
    _turn("system", TEXT),
)
TOOL = part(
    {
        "type": const("custom"),
        "name": NAME_SCHEMA,
        "description": STRING,
        "input_schema": ANYTHING,
        "strict": BOOLEAN,
        "cache_control": CACHE,
        **dict.fromkeys(OFFERED, BOOLEAN),
    },
    "type",
    "description",
    "strict",
    "cache_control",
    *OFFERED,
)
ALONE: dict[str, Schema] = {"disable_parallel_tool_use": BOOLEAN}
CHOICE = either(
    part({"type": one_of(("auto", "any"))} | ALONE, *ALONE),
    part({"type": const("tool"), "name": NAME_SCHEMA} | ALONE, *ALONE),
    part({"type": const("none")}),
)
TURNS = array(TURN, minItems=1)
TOOLS = array(TOOL, maxItems=TOOLS_MAX)
OUTPUT = part(
    {
        "format": part({"type": const("json_schema"), "schema": ANYTHING}),
        "effort": one_of(EFFORTS),
    },
    "format",
    "effort",
)
