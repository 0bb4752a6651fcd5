"""Guards two laws of what forms imply: an answer to a bounded schema is one to the caller's, and
what the caller said is never narrowed."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.engines.test_guides import answered, compiled, guides, schemas
from workers.engines.base import FinishReason
from workers.engines.bounds import ROOM_MAX, SAFE_INTEGER, bounded, rounded_room
from workers.engines.continuous.checkpoint import Checkpoint
from workers.engines.forms import Guide, Schema
from workers.engines.guides import Guides

__all__ = ["guides"]
ROOM = 256

OPEN: dict[str, Any] = {
    "a string": {"type": "string"},
    "an integer": {"type": "integer"},
    "an integer from": {"type": "integer", "minimum": 3},
    "a number": {"type": "number"},
    "a number within": {"type": "number", "minimum": 0, "maximum": 1},
    "a list of strings": {"type": "array", "items": {"type": "string"}},
    "a list of anything": {"type": "array"},
    "an object": {"type": "object"},
    "a map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "a person": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    },
    "an open person": {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": True,
    },
    "a union": {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]},
    "a reference": {"$ref": "#/$defs/s", "$defs": {"s": {"type": "string"}}},
    "anything": {"description": "what you like"},
}


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("seed", range(3))
def test_a_model_of_chance_comes_to_an_end(
    checkpoint: Checkpoint, guides: Guides, name: str, seed: int
) -> None:
    """A model that never ends by itself, where the form lets it go on."""
    guide = Guide(Schema("s", json.dumps(OPEN[name]), "here"), room=ROOM)
    text, reason = answered(checkpoint, compiled(guides, guide), seed, 8 * ROOM, ends=False)
    assert reason is FinishReason.STOP, text[-80:]
    jsonschema.validate(json.loads(text), OPEN[name])


@settings(max_examples=80, deadline=None)
@given(schema=schemas, seed=st.integers(0, 2**31), room=st.sampled_from([1, 8, 64, 512, 2048]))
def test_an_answer_to_the_bounded_schema_is_one_to_the_callers(
    checkpoint: Checkpoint, guides: Guides, schema: Any, seed: int, room: int
) -> None:
    form = compiled(guides, Guide(Schema("s", json.dumps(schema), "here"), room=room))
    text, reason = answered(checkpoint, form, seed, 300)
    if reason is FinishReason.STOP:
        jsonschema.validate(json.loads(text), schema)


@given(schema=schemas, room=st.sampled_from([None, 1, 64, 2048]))
def test_a_schema_keeps_every_word_of_its_own(schema: Any, room: int | None) -> None:
    before = copy.deepcopy(schema)
    found = bounded(schema, room)
    assert schema == before
    _keeps(schema, found)


def _keeps(said: Any, found: Any) -> None:
    if isinstance(said, dict):
        for name, inner in said.items():
            if name == "additionalProperties" and inner is True:
                continue  # bounded, and as open
            _keeps(inner, found[name])
    elif isinstance(said, list):
        for one, other in zip(said, found, strict=True):
            _keeps(one, other)
    else:
        assert said == found


SAID: dict[str, tuple[Any, Any]] = {
    "a long string": ({"type": "string", "maxLength": 5000}, "x" * 5000),
    "a pattern": ({"type": "string", "pattern": "^x{3000}$"}, "x" * 3000),
    "a least length": ({"type": "string", "minLength": 900}, "x" * 900),
    "a large integer": ({"type": "integer", "minimum": 10**17, "maximum": 10**18}, 10**17 + 1),
    "many items": ({"type": "array", "items": {"enum": [1]}, "maxItems": 40}, [1] * 40),
    "at least so many": ({"type": "array", "items": {"enum": [1]}, "minItems": 40}, [1] * 40),
    "a narrow fraction": ({"type": "number", "minimum": 0, "maximum": 1e-5}, 2e-7),
    "more properties": (
        {
            "type": "object",
            "properties": {"a": {"enum": [1]}},
            "additionalProperties": {"enum": [2]},
        },
        {"a": 1, "b": 2},
    ),
    "parts that hold together": (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"enum": [2]}}, "required": ["b"]},
            ]
        },
        {"a": 1, "b": 2},
    ),
    "required without a name": (
        {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a", "b"]},
        {"a": 1, "b": 2},
    ),
}


@pytest.mark.parametrize("name", SAID)
@pytest.mark.parametrize("room", [None, 64, 2048])
def test_what_the_caller_allows_in_words_is_allowed(name: str, room: int | None) -> None:
    schema, value = SAID[name]
    jsonschema.validate(value, schema)
    jsonschema.validate(value, bounded(schema, room))


def test_objects_are_closed_unless_they_say_otherwise() -> None:
    person = OPEN["a person"]
    assert bounded(person, None) == person | {"additionalProperties": False}
    inner = {"type": "array", "items": person}
    assert bounded(inner, None)["items"]["additionalProperties"] is False
    assert bounded(OPEN["an open person"], None) == OPEN["an open person"]
    assert bounded(OPEN["an object"], None) == OPEN["an object"]


def test_much_room_bounds_nothing_and_integers_stay_exact() -> None:
    assert rounded_room(ROOM_MAX) is rounded_room(None) is None
    assert (rounded_room(1), rounded_room(100), rounded_room(4095)) == (1, 64, 2048)
    found = bounded(OPEN["an integer"], ROOM)
    assert (found["minimum"], found["maximum"]) == (-SAFE_INTEGER, SAFE_INTEGER)
    assert bounded({"$ref": "#"}, ROOM) == {"$ref": "#"}


@given(st.frozensets(st.text(max_size=5), max_size=5), st.text(max_size=6))
def test_names_that_are_bounded_are_all_others(names: frozenset[str], name: str) -> None:
    schema = {
        "type": "object",
        "properties": {key: {"enum": [1]} for key in names},
        "additionalProperties": {"enum": [2]},
    }
    [pattern] = bounded(schema, ROOM)["patternProperties"]
    if name and "\n" not in name:
        assert (re.fullmatch(pattern[1:-1], name) is None) == (name in names)


@pytest.mark.parametrize(
    "wrong", [{"type": "objekt"}, {"properties": 5}, {"items": [1]}, {"type": 3}]
)
def test_a_schema_that_is_none_stays_what_it_is(wrong: Any) -> None:
    found = bounded(wrong, ROOM)
    assert all(found[name] == said for name, said in wrong.items())
