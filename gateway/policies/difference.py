"""What differs between two documents, as an operator says it: which rule came, went, moved or
changed, and in which words. Comments and the form of the text are no difference. Pure.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from gateway.policies.source import as_list, as_mapping, read
from gateway.policies.words import DefaultWords, RuleWords, TestWords
from routing.policy.action import DEFAULT_RULE


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    MOVED = "moved"
    CHANGED = "changed"


class ChangedPart(StrEnum):
    RULE = "rule"
    DEFAULT = "default"
    TEST = "test"


class WordChange(NamedTuple):
    """A word of a route with its value, or a clause. Example: `route.max_price.out_per_1m` was
    `1.20` and is `0.90`. None: it is not there."""

    word: str
    before: str | None
    after: str | None


class PolicyChange(NamedTuple):
    """`before` and `after` are places among the rules or tests, counted from 1. A rule that moved
    and changed has two."""

    part: ChangedPart
    name: str
    kind: ChangeKind
    before: int | None
    after: int | None
    words: tuple[WordChange, ...] = ()


def difference(before: str, after: str) -> tuple[PolicyChange, ...]:
    """In the order of the document after; what is gone comes last. Raises InvalidDocument for a
    text that is no YAML."""
    old, new = as_mapping(read(before).value), as_mapping(read(after).value)
    default = _changed_words(old.get("default"), new.get("default"), DefaultWords)
    part, kind = ChangedPart.DEFAULT, ChangeKind.CHANGED
    changes = [PolicyChange(part, DEFAULT_RULE, kind, None, None, default)] if default else []
    return (*_changes(old, new, _RULES), *changes, *_changes(old, new, _TESTS))


class _Listed(NamedTuple):
    """A list of the document whose items have names, each of them once."""

    key: str
    name: str
    part: ChangedPart
    kind: type[BaseModel]


_RULES = _Listed("rules", "id", ChangedPart.RULE, RuleWords)
_TESTS = _Listed("tests", "name", ChangedPart.TEST, TestWords)


def _changes(
    old: Mapping[str, Any], new: Mapping[str, Any], listed: _Listed
) -> Iterator[PolicyChange]:
    part = listed.part
    was, now = _by_name(old, listed), _by_name(new, listed)
    places = {name: place for place, name in enumerate(was, 1)}
    still = _longest_rising([places[name] for name in now if name in was])
    for place, name in enumerate(now, 1):
        if name not in was:
            yield PolicyChange(part, name, ChangeKind.ADDED, None, place)
            continue
        at = places[name]
        if part is ChangedPart.RULE and at not in still:
            yield PolicyChange(part, name, ChangeKind.MOVED, at, place)
        if words := _changed_words(was[name], now[name], listed.kind):
            yield PolicyChange(part, name, ChangeKind.CHANGED, at, place, words)
    for name, at in places.items():
        if name not in now:
            yield PolicyChange(part, name, ChangeKind.REMOVED, at, None)


def _by_name(document: Mapping[str, Any], listed: _Listed) -> dict[str, Any]:
    rows = [item for item in as_list(document.get(listed.key)) if isinstance(item, dict)]
    return {str(row.get(listed.name)): row for row in rows}


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """A longest rising subsequence of distinct numbers: what lies in it did not move."""
    ends: list[int] = []
    chains: list[tuple[int, ...]] = []
    for number in numbers:
        place = bisect_left(ends, number)
        chain = (*(chains[place - 1] if place else ()), number)
        ends[place : place + 1] = [number]
        chains[place : place + 1] = [chain]
    return set(chains[-1]) if chains else set()


def _changed_words(old: Any, new: Any, kind: type[BaseModel]) -> tuple[WordChange, ...]:
    """None where both mean the same, however they are written."""
    if _meaning(old, kind) == _meaning(new, kind):
        return ()
    was, now = dict(_values(old, ())), dict(_values(new, ()))
    return tuple(
        [
            WordChange(word, was.get((word, key)), now.get((word, key)))
            for word, key in dict.fromkeys((*was, *now))
            if was.get((word, key)) != now.get((word, key))
        ]
    )


def _meaning(value: Any, kind: type[BaseModel]) -> Any:
    try:
        return kind.model_validate(value)
    except ValidationError:
        return value


def _values(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, str], str]]:
    """Each value by its dotted path. A clause is known by its text as well."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _values(inner, (*path, str(key)))
    elif path == ("when",) and isinstance(value, list):
        for text in value:
            yield ("when", str(text)), str(text)
    else:
        yield (".".join(path), ""), value if isinstance(value, str) else json.dumps(value)
