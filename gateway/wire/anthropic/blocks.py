"""The system prompt and the turns of `/v1/messages`: the fields of each block, with check and
schema. `turns.py` translates what passes."""

from typing import Annotated, Any

from gateway.wire.bodies.checks import (
    an_object,
    empty_array,
    invalid_type,
    missing,
    one_of,
    only,
    require_known,
)
from gateway.wire.bodies.messages import IMAGE_URL
from gateway.wire.bodies.rules import (
    SWITCH,
    TEXT,
    Rule,
    in_words,
    needed,
    object_of,
    the,
    unchecked,
    union_of,
    variant,
    word_of,
)
from gateway.wire.bodies.tools import NAME_SCHEMA
from gateway.wire.json_schema import ANYTHING, STRING, Schema, array, const, either, part

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
CACHE = object_of({"type": the("ephemeral"), "scope": TEXT, "ttl": word_of("5m", "1h")}, "type")
"""A hint that nothing depends on: every prefix is looked for in the cache, and kept as long as
there is room."""
CacheControl = Annotated[dict[str, Any], in_words(CACHE)]

TEXT_VARIANT = variant(
    "text",
    {
        "text": TEXT,
        "citations": Rule(only([]), array(ANYTHING, maxItems=0)),
        "cache_control": CACHE,
    },
    "text",
    first=("citations", "cache_control"),
)
IMAGE_VARIANT = variant(
    "image",
    {
        "source": union_of(
            variant("base64", {"media_type": word_of(*IMAGES), "data": TEXT}, "media_type", "data"),
            variant("url", {"url": unchecked(IMAGE_URL)}, "url"),
        ),
        "cache_control": CACHE,
    },
    "source",
    first=("cache_control",),
)
USE_VARIANT = variant(
    "tool_use",
    {
        "id": unchecked(STRING),
        "name": unchecked(NAME_SCHEMA),
        "input": needed(Rule(an_object, ANYTHING)),
        "caller": Rule(only({"type": "direct"}), const({"type": "direct"})),
        "cache_control": CACHE,
    },
    *("id", "name", "input"),
    first=("caller", "cache_control"),
)
THOUGHT_VARIANT = variant("thinking", {"thinking": TEXT, "signature": TEXT}, "thinking")
"""A signature is that of another server: nobody here could check it."""
REDACTED_VARIANT = variant("redacted_thinking", {"data": TEXT}, "data")
TEXT_BLOCK, IMAGE_BLOCK = union_of(TEXT_VARIANT), union_of(IMAGE_VARIANT)


def is_image(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "image"


def _texts(name: str, content: object) -> None:
    if content is None:
        raise missing(name)
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise invalid_type(name, "a string or an array of blocks", content)
    for index, block in enumerate(content):
        TEXT_BLOCK.check(f"{name}[{index}]", block)


def _result(name: str, content: object) -> None:
    if not isinstance(content, list):
        _texts(name, content)
        return
    for index, block in enumerate(content):
        (IMAGE_BLOCK if is_image(block) else TEXT_BLOCK).check(f"{name}[{index}]", block)


RESULT_CONTENT = either(STRING, array(either(TEXT_BLOCK.schema, IMAGE_BLOCK.schema)))
RESULT_VARIANT = variant(
    "tool_result",
    {
        "tool_use_id": needed(TEXT),
        "content": Rule(
            _result, either(STRING, array(either(TEXT_BLOCK.schema, IMAGE_BLOCK.schema)))
        ),
        "is_error": SWITCH,
        "cache_control": CACHE,
    },
    "tool_use_id",
    first=("cache_control",),
)
TEXTS = Rule(_texts, either(STRING, array(TEXT_BLOCK.schema)))
BLOCKS = {
    "user": union_of(TEXT_VARIANT, IMAGE_VARIANT, RESULT_VARIANT),
    "assistant": union_of(TEXT_VARIANT, USE_VARIANT, THOUGHT_VARIANT, REDACTED_VARIANT),
}
ROLE = one_of("user", "assistant", "system")


def _turn(name: str, turn: Any) -> None:
    an_object(name, turn)
    require_known(name, turn, "role", "content")
    ROLE(f"{name}.role", turn.get("role"))
    role, content = turn["role"], turn.get("content")
    if role == "system" or not isinstance(content, list):
        _texts(f"{name}.content", content)
        return
    if not content:
        raise empty_array(f"{name}.content")
    check = BLOCKS[role].check
    for index, block in enumerate(content):
        check(f"{name}.content[{index}]", block)


def _turns(name: str, turns: object) -> None:
    if not isinstance(turns, list):
        raise invalid_type(name, "an array of objects", turns)
    if not turns:
        raise empty_array(name)
    for index, turn in enumerate(turns):
        _turn(f"{name}[{index}]", turn)


def _schema(role: str, block: Schema) -> Schema:
    return part({"role": const(role), "content": either(STRING, array(block, minItems=1))})


TURNS = Rule(
    _turns,
    array(
        either(
            _schema("user", BLOCKS["user"].schema),
            _schema("assistant", BLOCKS["assistant"].schema),
            _schema("system", either(TEXT_BLOCK.schema)),
        ),
        minItems=1,
    ),
)
