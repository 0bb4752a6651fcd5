"""The few words of JSON Schema that descriptions here are written in."""

from collections.abc import Iterable
from typing import Any

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BINARY: Schema = STRING | {"format": "binary"}
"""A file of a form."""
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
ANYTHING: Schema = {"type": "object"}
NOTHING: Schema = {"type": "null"}
"""A field that is known and may only be left out."""
USD: Schema = {
    "type": "string",
    "pattern": r"^-?[0-9]+(\.[0-9]+)?$",
    "description": "decimal USD",
}


def objects(properties: dict[str, Schema], *optional: str, closed: bool = False) -> Schema:
    """An object that has all of these, but for the optional ones; `closed`: and nothing else."""
    schema: Schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return schema | ({"additionalProperties": False} if closed else {})


def part(properties: dict[str, Schema], *optional: str) -> Schema:
    """An object inside of a body: what is optional may be null, and so may anything that nobody
    knows, which clients say for what they leave out."""
    fields = {name: maybe(v) if name in optional else v for name, v in properties.items()}
    return objects(fields, *optional) | {"additionalProperties": NOTHING}


def text(**bounds: int | str) -> Schema:
    return STRING | bounds


def array(items: Schema, **bounds: int) -> Schema:
    return {"type": "array", "items": items, **bounds}


def as_good_as(neutral: object) -> Schema:
    """A field that is known and may only ask for nothing."""
    return NOTHING if neutral is None else const(neutral)


def maybe(schema: Schema) -> Schema:
    """Or null."""
    if schema == NOTHING:
        return schema
    return {"anyOf": [schema, {"type": "null"}]}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def one_of(values: Iterable[str]) -> Schema:
    return {"type": "string", "enum": list(values)}


def const(value: object) -> Schema:
    return {"const": value}


def between(low: float, high: float, kind: str = "number") -> Schema:
    return {"type": kind, "minimum": low, "maximum": high}


def reference_to(component: str) -> Schema:
    return {"$ref": f"#/components/schemas/{component}"}
