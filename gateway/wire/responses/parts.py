"""Parts of items that callers send, and what an earlier answer said of those items: check and
schema of each, and the part of a chat message that it becomes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.call.frame import Scored
from gateway.wire.bodies.checks import invalid_type, missing, only
from gateway.wire.bodies.messages import DETAIL, IMAGE_URL
from gateway.wire.bodies.rules import (
    TEXT,
    Rule,
    Variant,
    elsewhere,
    unchecked,
    union_of,
    variant,
    word_of,
)
from gateway.wire.json_schema import (
    ANYTHING,
    NUMBER,
    STRING,
    Schema,
    array,
    between,
    either,
    maybe,
    objects,
)

Json = dict[str, Any]

STATUS = word_of("in_progress", "completed", "incomplete")
BOOKED = {"id": TEXT, "status": STATUS}
"""What an earlier answer said of its own items, and clients send back with them."""
LIKELY: dict[str, Schema] = {
    "token": STRING,
    "logprob": NUMBER,
    "bytes": maybe(array(between(0, 255, "integer"))),
}
SCORES = array(
    objects(LIKELY | {"top_logprobs": array(objects(LIKELY, "bytes"))}, "bytes", "top_logprobs")
)


def _scores(name: str, value: object) -> None:
    """Of an earlier answer: nothing is made of them, but they are what they say they are."""
    try:
        msgspec.convert(value, list[Scored])
    except msgspec.ValidationError as wrong:
        raise invalid_type(name, "an array of log probabilities", value) from wrong


INPUT_TEXT = variant("input_text", {"text": TEXT}, "text")
INPUT_IMAGE = variant(
    "input_image",
    {"image_url": elsewhere(IMAGE_URL), "detail": unchecked(DETAIL.schema)},
    "image_url",
)
OUTPUT_TEXT = variant(
    "output_text",
    {
        "text": TEXT,
        "annotations": Rule(only([]), array(ANYTHING, maxItems=0)),
        "logprobs": Rule(_scores, SCORES),
    },
    "text",
    first=("annotations", "logprobs"),
)
REFUSAL = variant("refusal", {"refusal": TEXT}, "refusal")


def content_of(*variants: Variant) -> Rule:
    """A text, or parts of these types."""
    part = union_of(*variants)

    def check(name: str, value: object) -> None:
        if value is None:
            raise missing(name)
        if isinstance(value, str):
            return
        if not isinstance(value, list):
            raise invalid_type(name, "a string or an array of parts", value)
        for index, each in enumerate(value):
            part.check(f"{name}[{index}]", each)

    schemas = [each.schema for each in variants]
    return Rule(check, either(STRING, array(either(*schemas), minItems=1)))


def chat_content(content: Any) -> Any:
    return content if isinstance(content, str) else [chat_part(part) for part in content]


def chat_part(part: Mapping[str, Any]) -> Json:
    """Of one that passed its check. What an image may be is chat's to say."""
    if part["type"] == "input_image":
        fields = {"url": part["image_url"], "detail": part.get("detail")}
        image = {field: value for field, value in fields.items() if value is not None}
        return {"type": "image_url", "image_url": image}
    if part["type"] == "refusal":
        return {"type": "refusal", "refusal": part["refusal"]}
    return {"type": "text", "text": part["text"]}
