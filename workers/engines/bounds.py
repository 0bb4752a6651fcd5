"""Bounds that a schema leaves open, so that an answer ends before its room does. Pure.

A small model that may go on within a string, a number or an object often does. Then the answer is
cut and is no JSON. So the parts that the caller left open are bounded by the room, which is the
most tokens that the answer may have. Bounds of the caller stay as they are. An answer with much
room gets none. Every answer to a bounded schema is one to the caller's schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

ROOM_MAX = 4096
"""An answer with room for so many tokens is bounded in nothing."""
CHARACTERS_OF_A_TOKEN = 2
CHARACTERS_MIN = 32
CHARACTERS_MAX = 4000
TOKENS_OF_AN_ITEM = 64
ITEMS_MIN = 2
NAME_CHARACTERS_MAX = 40
NAMED_CHARACTERS_MAX = 300
SAFE_INTEGER = 2**53 - 1
"""The largest that every reader of JSON reads exactly (RFC 8259)."""
FRACTION = 1e-6
STEPS_MIN = 1000
DEPTH_OF_ANYTHING = 3
DEPTH_MAX = 60
DECIDED = frozenset(
    {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not", "if", "properties"}
)
OPENINGS = frozenset(
    {"additionalProperties", "unevaluatedProperties", "patternProperties", "dependentSchemas"}
    | {"anyOf", "oneOf", "allOf", "$ref", "if"}
)
CHOICES = ("anyOf", "oneOf", "allOf")


def rounded_room(tokens: int | None) -> int | None:
    """The room, rounded down to a power of two, so that few grammars serve all calls of a schema.
    None: no bounds."""
    return None if tokens is None or tokens >= ROOM_MAX else 1 << (tokens.bit_length() - 1)


def bounded(schema: Json, room: int | None) -> Json:
    """The schema with its objects closed where it does not mention other properties. With `room` it
    has also the bounds that it leaves open."""
    composed = _is_composed(schema)
    if room is None:
        return _Bounds(None, 0, composed).schema(schema)
    items = max(ITEMS_MIN, room // TOKENS_OF_AN_ITEM)
    share = CHARACTERS_OF_A_TOKEN * room // (_free_strings(schema, items) + 1)
    characters = min(max(share, CHARACTERS_MIN), CHARACTERS_MAX)
    return _Bounds(characters, items, composed).schema(schema)


@dataclass(frozen=True, slots=True)
class _Bounds:
    """`characters` is the bound of a string, None where only objects are closed. The parts of a
    `composed` schema hold together, so none of them may be closed."""

    characters: int | None
    items: int
    composed: bool

    def schema(self, node: Any, *, may_close: bool = True, depth: int = 0) -> Any:
        if not isinstance(node, dict) or depth > DEPTH_MAX:
            return node
        copy = self._inner(node, may_close, depth + 1)
        if may_close and not self.composed and _is_closed_unsaid(copy):
            copy["additionalProperties"] = False
        return copy if self.characters is None else copy | self._unsaid(copy)

    def _inner(self, node: Json, may_close: bool, depth: int) -> Json:
        """A copy whose inner schemas are bounded."""
        copy = dict(node)
        for name in ("properties", "patternProperties", "$defs", "definitions"):
            if isinstance(inner := node.get(name), dict):
                copy[name] = {key: self.schema(one, depth=depth) for key, one in inner.items()}
        for name in ("items", "additionalProperties"):
            if name in node:
                copy[name] = self.schema(node[name], depth=depth)
        if isinstance(items := node.get("prefixItems"), list):
            copy["prefixItems"] = [self.schema(one, depth=depth) for one in items]
        alone = may_close and "properties" not in node
        for name in CHOICES:
            if isinstance(items := node.get(name), list):
                copy[name] = [self.schema(one, may_close=alone, depth=depth) for one in items]
        return copy

    def _unsaid(self, node: Json) -> Json:
        if DECIDED.isdisjoint(node):
            return self._anything(DEPTH_OF_ANYTHING)
        if "enum" in node or "const" in node:
            return {}
        bounds: Json = {}
        kinds = _kinds(node)
        if "string" in kinds:
            bounds |= self._string(node)
        if "integer" in kinds:
            bounds |= _integer(node)
        if "number" in kinds:
            bounds |= _number(node)
        if "array" in kinds:
            bounds |= self._array(node)
        if "object" in kinds:
            bounds |= self._object(node)
        return bounds

    def _string(self, node: Json) -> Json:
        if not node.keys().isdisjoint({"maxLength", "pattern", "format"}):
            return {}
        return {"maxLength": _count(node, "minLength") + (self.characters or 0)}

    def _array(self, node: Json) -> Json:
        bounds: Json = {}
        if "maxItems" not in node:
            fixed = len(items) if isinstance(items := node.get("prefixItems"), list) else 0
            bounds["maxItems"] = max(_count(node, "minItems"), fixed, self.items)
        if node.get("items", True) is True and node.keys().isdisjoint(OPENINGS | {"prefixItems"}):
            bounds["items"] = self._anything(DEPTH_OF_ANYTHING - 1)
        return bounds

    def _object(self, node: Json) -> Json:
        """The bounds of an open object: how many properties it has, and how long their names
        are."""
        more = node.get("additionalProperties", True)
        if more is False or not node.keys().isdisjoint(OPENINGS - {"additionalProperties"}):
            return {}
        value = self._anything(DEPTH_OF_ANYTHING) if more in (True, {}) else more
        properties = node.get("properties") or {}
        bounds: Json = {}
        required = node.get("required") or []
        if "maxProperties" not in node and set(properties) <= set(required):
            most = max(_count(node, "minProperties"), self.items)
            bounds["maxProperties"] = most + len(required)
        if sum(map(len, properties)) > NAMED_CHARACTERS_MAX:
            return bounds | {"additionalProperties": value}
        names = f"^{_other_than(frozenset(properties))}$"
        return bounds | {"patternProperties": {names: value}, "additionalProperties": False}

    def _anything(self, depth: int) -> Json:
        """The schema of any value, with at most so many lists and objects inside one another."""
        most_of_it = max(CHARACTERS_MIN, (self.characters or 0) // max(1, self.items))
        kinds: list[Json] = [
            {"type": "string", "maxLength": most_of_it},
            {"type": "number"} | _number({}),
            {"type": ["boolean", "null"]},
        ]
        if depth:
            inner = self._anything(depth - 1)
            names = f"^{_other_than(frozenset())}$"
            most = {"maxProperties": self.items, "additionalProperties": False}
            kinds += [
                {"type": "array", "items": inner, "maxItems": self.items},
                {"type": "object", "patternProperties": {names: inner}} | most,
            ]
        return {"anyOf": kinds}


def _other_than(names: frozenset[str], start: str = "") -> str:
    """A pattern for the rest of a name after `start`. The name is none of `names`, and not long."""
    longer = [name for name in names if name.startswith(start) and name != start]
    following = sorted({name[len(start)] for name in longer})
    ends = [""] if start and start not in names else []
    if not following:
        return f".{{{0 if ends else 1},{NAME_CHARACTERS_MAX}}}"
    goes_on = [re.escape(one) + _other_than(names, start + one) for one in following]
    leaves = f"[^{''.join(map(re.escape, following))}].{{0,{NAME_CHARACTERS_MAX}}}"
    return f"(?:{'|'.join([*ends, *goes_on, leaves])})"


def _integer(node: Json) -> Json:
    low, high = _limit(node, "minimum"), _limit(node, "maximum")
    if "multipleOf" in node or (low or 0) >= SAFE_INTEGER or (high or 0) <= -SAFE_INTEGER:
        return {}
    return ({} if low is not None else {"minimum": -SAFE_INTEGER}) | (
        {} if high is not None else {"maximum": SAFE_INTEGER}
    )


def _number(node: Json) -> Json:
    """The bounds of a number. Steps between numbers bound the digits of a fraction."""
    bounds = _integer(node)
    limits = node | bounds
    low, high = _limit(limits, "minimum"), _limit(limits, "maximum")
    if low is None or high is None or high - low < STEPS_MIN * FRACTION:
        return {}
    return bounds | {"multipleOf": FRACTION}


def _limit(node: Json, name: str) -> float | None:
    value = node.get(name, node.get(f"exclusive{name.capitalize()}"))
    return value if isinstance(value, int | float) else None


def _count(node: Json, name: str) -> int:
    value = node.get(name)
    return value if isinstance(value, int) else 0


def _kinds(node: Json) -> frozenset[str]:
    value = node.get("type")
    kinds = value if isinstance(value, list) else [value]
    return frozenset(one for one in kinds if isinstance(one, str))


def _is_closed_unsaid(node: Json) -> bool:
    """Whether an object may be closed: it names its properties, does not mention others, and needs
    none."""
    properties = node.get("properties")
    if not isinstance(properties, dict) or not node.keys().isdisjoint(OPENINGS):
        return False
    required = node.get("required", [])
    return (
        isinstance(required, list)
        and all(isinstance(name, str) and name in properties for name in required)
        and _count(node, "minProperties") <= len(properties)
    )


def _is_composed(node: object) -> bool:
    """Whether several schemas hold for one value anywhere, so that none of them may close it
    alone."""
    if isinstance(node, list):
        return any(map(_is_composed, node))
    if not isinstance(node, Mapping):
        return False
    several = isinstance(every := node.get("allOf"), list) and len(every) > 1
    beside = isinstance(node.get("$ref"), str) and "properties" in node
    return several or beside or any(map(_is_composed, node.values()))


def _free_strings(node: object, items: int) -> int:
    """The number of strings without a bound in an answer. Those of a list count for each item."""
    if isinstance(node, list):
        return sum(_free_strings(one, items) for one in node)
    if not isinstance(node, Mapping):
        return 0
    inner = sum(_free_strings(one, items) for one in node.values())
    if "array" in _kinds(dict(node)):
        return inner * min(_count(dict(node), "maxItems") or items, items)
    is_free = node.keys().isdisjoint({"maxLength", "pattern", "format", "enum", "const"})
    return inner + ("string" in _kinds(dict(node)) and is_free)
