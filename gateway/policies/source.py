"""The text of a policy as plain values, each with its place.

Reads YAML of the core schema: no aliases, no tags, no key twice, bounded in size and depth. Knows
nothing of what a policy means.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

import yaml

from routing.policy.conditions import Mistake

CHARACTERS_MAX: Final = 256 * 1024
DEPTH_MAX: Final = 12

Path = tuple[str | int, ...]
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}


class InvalidDocument(Exception):
    """`mistakes` has every one that was seen, in the order of the text."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("; ".join(f"{m.line}:{m.column} {m.message}" for m in mistakes))
        self.mistakes = mistakes


@dataclass(slots=True)
class DocumentText:
    """Values with the places, counted from 1, where they and their keys begin."""

    text: str
    value: Any = None
    values: dict[Path, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict)
    styles: dict[Path, str | None] = field(default_factory=dict)

    def at(self, path: Path, message: str, *, key: bool = False) -> Mistake:
        """A mistake at a value, at its key, or at the nearest thing around it that is there."""
        if key and path in self.keys:
            return Mistake(*self.keys[path], message)
        while path and path not in self.values:
            path = path[:-1]
        return Mistake(*self.values.get(path, (1, 1)), message)

    def inside(self, path: Path, mistake: Mistake) -> Mistake:
        """A mistake inside of a text, at its place in the document. Of a text that is folded over
        several lines only the beginning is known."""
        line, column = self.values[path]
        style, lines = self.styles.get(path), self.text.split("\n")
        if style == "|":
            row = lines[line + mistake.line - 1] if line + mistake.line <= len(lines) else ""
            indent = len(row) - len(row.lstrip(" "))
            return Mistake(line + mistake.line, indent + mistake.column, mistake.message)
        if mistake.line > 1 or style == ">":
            return Mistake(line, column, mistake.message)
        raw = lines[line - 1][column - 1 :]
        return Mistake(line, column + _offset(raw, style, mistake.column - 1), mistake.message)


def _offset(raw: str, style: str | None, characters: int) -> int:
    """Where in a scalar as it is written a character stands."""
    if style not in ("'", '"'):
        return characters
    at = 1
    for _ in range(characters):
        if style == "'":
            at += 2 if raw.startswith("''", at) else 1
        elif raw.startswith("\\", at):
            at += 2 + {"x": 2, "u": 4, "U": 8}.get(raw[at + 1 : at + 2], 0)
        else:
            at += 1
    return at


def as_mapping(value: Any) -> Mapping[str, Any]:
    """What is not a mapping has no keys. Somebody else names that mistake."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def nearest(name: str, names: Iterable[str]) -> str:
    """A question to add to a message, where one of the names is close."""
    close = get_close_matches(name, list(names), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def read(text: str) -> DocumentText:
    """Raises InvalidDocument."""
    if len(text) > CHARACTERS_MAX:
        message = f"the document has {len(text)} characters, at most {CHARACTERS_MAX} may be"
        raise InvalidDocument((Mistake(1, 1, message),))
    source, mistakes = DocumentText(text), list[Mistake]()
    try:
        events = yaml.parse(text, Loader=_LOADER)
        next(events), next(events)  # the stream's and the document's beginning
        source.value = _node(next(events), events, source, (), mistakes)
        if not isinstance(next(events), yaml.DocumentEndEvent) or not isinstance(
            next(events), yaml.StreamEndEvent
        ):
            mistakes.append(Mistake(1, 1, "one document is wanted, and here are several"))
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        mistakes.append(Mistake(line, column, f"not YAML: {wrong.problem or wrong.context}"))
    except (yaml.YAMLError, UnicodeError) as wrong:
        mistakes.append(Mistake(1, 1, f"not YAML: {str(wrong).splitlines()[0]}"))
    except StopIteration:
        mistakes.append(Mistake(1, 1, "the document is empty"))
    if mistakes:
        raise InvalidDocument(tuple(sorted(mistakes)))
    return source


def _node(
    event: Any, events: Iterator[Any], source: DocumentText, path: Path, mistakes: list[Mistake]
) -> Any:
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    source.values[path] = line, column
    if isinstance(event, yaml.AliasEvent):
        mistakes.append(Mistake(line, column, f"an alias may not be used: *{event.anchor}"))
        return None
    if event.tag is not None:
        mistakes.append(Mistake(line, column, f"a tag may not be used: {event.tag}"))
    if len(path) >= DEPTH_MAX:
        raise InvalidDocument((Mistake(line, column, f"nested deeper than {DEPTH_MAX} levels"),))
    if isinstance(event, yaml.ScalarEvent):
        source.styles[path] = event.style or None
        return event.value if event.style else _scalar(event.value)
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(inner := next(events), yaml.SequenceEndEvent):
            items.append(_node(inner, events, source, (*path, len(items)), mistakes))
        return items
    return _mapping(events, source, path, mistakes)


def _mapping(
    events: Iterator[Any], source: DocumentText, path: Path, mistakes: list[Mistake]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        place = event.start_mark.line + 1, event.start_mark.column + 1
        if not isinstance(event, yaml.ScalarEvent):
            raise InvalidDocument((*mistakes, Mistake(*place, "a key is a text")))
        name = event.value
        if name in values:
            mistakes.append(Mistake(*place, f"the key '{name}' is here twice"))
        source.keys[(*path, name)] = place
        values[name] = _node(next(events), events, source, (*path, name), mistakes)
    return values


def _scalar(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
