"""Parts of items that callers send, and what an earlier answer said of those items."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.call.frame import Scored
from gateway.wire.bodies.checks import invalid_type, missing, one_of, only, require_known, string

Json = dict[str, Any]

STATUSES = ("in_progress", "completed", "incomplete")
TEXT_PARTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}


def bookkeeping(name: str, item: Mapping[str, Any]) -> None:
    """What an earlier answer said of its own items, and clients send back with them."""
    if item.get("id") is not None:
        string(f"{name}.id", item["id"])
    if item.get("status") is not None:
        one_of(*STATUSES)(f"{name}.status", item["status"])


def part(name: str, value: object, kinds: Sequence[str]) -> Json:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    one_of(*kinds)(f"{name}.type", value.get("type"))
    kind: str = value["type"]
    if kind == "input_image":
        return _image(name, value)
    field = TEXT_PARTS[kind]
    more = ("annotations", "logprobs") if kind == "output_text" else ()
    require_known(name, value, "type", field, *more)
    if value.get("annotations") is not None:
        only([])(f"{name}.annotations", value["annotations"])
    if value.get("logprobs") is not None:
        _scores(f"{name}.logprobs", value["logprobs"])
    string(f"{name}.{field}", value.get(field))
    return {"type": "refusal" if kind == "refusal" else "text", field: value[field]}


def _scores(name: str, value: object) -> None:
    """Of an earlier answer: nothing is made of them, but they are what they say they are."""
    try:
        msgspec.convert(value, list[Scored])
    except msgspec.ValidationError as wrong:
        raise invalid_type(name, "an array of log probabilities", value) from wrong


def _image(name: str, part: Mapping[str, Any]) -> Json:
    """What it may be is chat's to say."""
    require_known(name, part, "type", "image_url", "detail")
    if part.get("image_url") is None:
        raise missing(f"{name}.image_url")
    fields = {"url": part["image_url"], "detail": part.get("detail")}
    image = {field: value for field, value in fields.items() if value is not None}
    return {"type": "image_url", "image_url": image}
