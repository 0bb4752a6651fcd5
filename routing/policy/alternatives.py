"""A clause as alternatives, each of which is several conditions that hold at once.

Pure. Owns how a clause is read: `&&`, `||`, `!` and brackets around them. What stands between is a
condition, whatever it says; a text that is not read to the end is one condition as a whole.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice, pairwise, product
from typing import Final, NamedTuple

ALTERNATIVES_MAX: Final = 64
DEPTH_MAX: Final = 16
TOKENS_MAX: Final = 400
"""Of a clause that is read. A longer one is one condition as a whole."""
_TOKEN = re.compile(r""""[^"]*"|'[^']*'|&&|\|\||!=|[()\[\]{}!?]|[\w.]+|[^\w\s"'()\[\]{}!?&|]|\S""")
_WORD = re.compile(r"[\w.]")
_NOT_READ: Final = ("//", "\\", '"""', "'''")
"""Comments and texts whose end is not the next quote."""
_DEEPER: Final[Mapping[str, int]] = {**dict.fromkeys("([{", 1), **dict.fromkeys(")]}", -1)}


class Condition(NamedTuple):
    """A part of a clause. `holds` False: what is asked is that it is false, and no error."""

    text: str
    holds: bool = True


Alternatives = Sequence[tuple[Condition, ...]]
"""None of them never holds; one without a condition always does."""


class TooManyAlternatives(ValueError):
    pass


def alternatives_of(clauses: Iterable[str]) -> Alternatives:
    """Of clauses that all hold. Raises TooManyAlternatives."""
    return _all([_of_clause(clause) for clause in clauses])


def _of_clause(clause: str) -> Alternatives:
    tokens = [*_TOKEN.finditer(clause)]
    is_short = len(tokens) <= TOKENS_MAX
    if not is_short or any(mark in clause for mark in _NOT_READ) or not _is_plain(tokens):
        return [(Condition(clause.strip()),)]
    return _read([token[0] for token in tokens], True, DEPTH_MAX)


def _is_plain(tokens: Sequence[re.Match[str]]) -> bool:
    """Brackets come in pairs, and no letter stands before a quote and changes what it opens."""
    depths = [*accumulate(_DEEPER.get(token[0], 0) for token in tokens)]
    has_prefix = any(
        token[0][0] in "\"'" and last.end() == token.start() and last[0][-1].isalnum()
        for last, token in pairwise(tokens)
    )
    return bool(tokens) and min(depths) >= 0 == depths[-1] and not has_prefix


def _read(tokens: Sequence[str], holds: bool, depth: int) -> Alternatives:
    """`holds` False: of the opposite."""
    joint = _joint(tokens) if depth else None
    if joint in ("||", "&&"):
        each = [_read(part, holds, depth) for part in _parts(tokens, joint)]
        return _any(each) if (joint == "||") is holds else _all(each)
    if joint is None and depth:
        if _is_bracketed(tokens):
            return _read(tokens[1:-1], holds, depth - 1)
        if tokens and tokens[0] == "!" and _is_bracketed(tokens[1:]):
            return _read(tokens[2:-1], not holds, depth - 1)
    return [(Condition(_text(tokens), holds),)]


def _joint(tokens: Sequence[str]) -> str | None:
    """What binds loosest outside of all brackets."""
    depth, outside = 0, set[str]()
    for token in tokens:
        depth += _DEEPER.get(token, 0)
        if depth == 0:
            outside.add(token)
    return next((joint for joint in ("?", "||", "&&") if joint in outside), None)


def _parts(tokens: Sequence[str], joint: str) -> list[Sequence[str]]:
    """What the joint separates, where it is outside of all brackets."""
    depth, begun = 0, 0
    parts = []
    for at, token in enumerate(tokens):
        depth += _DEEPER.get(token, 0)
        if token == joint and depth == 0:
            parts.append(tokens[begun:at])
            begun = at + 1
    return [*parts, tokens[begun:]]


def _is_bracketed(tokens: Sequence[str]) -> bool:
    """Whether the first one opens a bracket that the last one closes."""
    if not tokens or (tokens[0], tokens[-1]) != ("(", ")"):
        return False
    depths = accumulate(_DEEPER.get(token, 0) for token in tokens)
    return 0 not in islice(depths, len(tokens) - 1)


def _text(tokens: Sequence[str]) -> str:
    """The same for every way to space it out."""
    text = ""
    for token in tokens:
        gap = " " if text and _WORD.fullmatch(text[-1]) and _WORD.match(token[0]) else ""
        text += gap + token
    return text


def _any(each: Sequence[Alternatives]) -> Alternatives:
    return _bounded([one for alternatives in each for one in alternatives])


def _all(each: Sequence[Alternatives]) -> Alternatives:
    joined: Alternatives = [()]
    for alternatives in each:
        joined = _bounded([one + other for one, other in product(joined, alternatives)])
    return joined


def _bounded(alternatives: Alternatives) -> Alternatives:
    if len(alternatives) > ALTERNATIVES_MAX:
        raise TooManyAlternatives
    return alternatives
