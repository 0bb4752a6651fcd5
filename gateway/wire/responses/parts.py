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


def part(name: str, found: object, kinds: Sequence[str]) -> Json:
    if not isinstance(found, dict):
        raise invalid_type(name, "an object", found)
    one_of(*kinds)(f"{name}.type", found.get("type"))
    kind: str = found["type"]
    if kind == "input_image":
        return _image(name, found)
    field = TEXT_PARTS[kind]
    known = ("annotations", "logprobs") if kind == "output_text" else ()
    require_known(name, found, "type", field, *known)
    if found.get("annotations") is not None:
        only([])(f"{name}.annotations", found["annotations"])
    if found.get("logprobs") is not None:
        _scores(f"{name}.logprobs", found["logprobs"])
    string(f"{name}.{field}", found.get(field))
    return {"type": "refusal" if kind == "refusal" else "text", field: found[field]}


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
    seen = {"url": part["image_url"], "detail": part.get("detail")}
    said = {field: value for field, value in seen.items() if value is not None}
    return {"type": "image_url", "image_url": said}
