"""JSON as the engines have models write it, and the parts of it that a form decides, not the
model."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

Span = tuple[int, int]


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def written(value: object, *, keys_given: bool) -> tuple[str, tuple[Span, ...]]:
    """The text of `value`, and where its braces and keys lie when a form has `keys_given`."""
    text, spans = "", list[Span]()
    for piece, is_given in _pieces(value):
        if is_given and keys_given:
            spans.append((len(text), len(text) + len(piece)))
        text += piece
    return text, tuple(spans)


def schema_of(properties: Mapping[str, Any], *, title: str | None = None) -> dict[str, Any]:
    """A schema of these properties, all required; titled throughout as pydantic has it, or plain."""
    if title is None:
        return {"type": "object", "properties": dict(properties), "required": list(properties)}
    titled = {
        name: {"title": name.replace("_", " ").title()} | inner
        for name, inner in properties.items()
    }
    return {"properties": titled, "required": list(properties), "title": title, "type": "object"}


def type_of(value: object) -> dict[str, Any]:
    """The schema of a value."""
    if isinstance(value, bool):
        return {"type": "boolean"}
    if isinstance(value, int):
        return {"type": "integer"}
    if isinstance(value, float):
        return {"type": "number"}
    if isinstance(value, list):
        return {"type": "array", "items": type_of(value[0])}
    if isinstance(value, dict):
        return schema_of({name: type_of(inner) for name, inner in value.items()})
    return {"type": "string"}


def _pieces(value: object) -> Iterator[tuple[str, bool]]:
    """The pieces of the JSON of a value, and whether each is structure."""
    if not isinstance(value, dict):
        yield dumped(value), False
        return
    for number, (name, inner) in enumerate(value.items()):
        opening = ", " if number else "{"
        quoted = isinstance(inner, str)
        yield f"{opening}{dumped(name)}: " + '"' * quoted, True
        if quoted:
            yield dumped(inner)[1:], False
        else:
            yield from _pieces(inner)
    yield "}", False
