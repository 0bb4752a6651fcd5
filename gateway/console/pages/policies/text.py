"""The text of a document line by line, with its mistakes marked where they are. Pure."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from routing.policy.conditions import Mistake

WORD = re.compile(r"[\w.:-]+|\S")
"""What is marked: the word or sign at a place, else the next one, else the end of the line. A quote
is marked with the word behind it."""


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str
    message: str
    """Empty where nothing is wrong."""


@dataclass(frozen=True, slots=True)
class TextLine:
    number: int
    pieces: tuple[TextPiece, ...]
    is_wrong: bool


def marked_lines(text: str, mistakes: Sequence[Mistake] = ()) -> tuple[TextLine, ...]:
    """Every line, at least one. A mistake beyond the text is marked at its end."""
    lines = text.split("\n")
    by_line: defaultdict[int, list[Mistake]] = defaultdict(list)
    for mistake in mistakes:
        by_line[min(mistake.line, len(lines))].append(mistake)
    return tuple(
        [
            TextLine(number, _pieces(line, by_line.get(number, ())), number in by_line)
            for number, line in enumerate(lines, 1)
        ]
    )


def _pieces(line: str, mistakes: Sequence[Mistake]) -> tuple[TextPiece, ...]:
    pieces: list[TextPiece] = []
    place, marked = 0, set[tuple[int, int]]()
    for mistake in sorted(mistakes):
        start, end = _place(line, mistake.column - 1)
        if (start, end) in marked or start < place:
            continue  # what is wrong here is marked already
        marked.add((start, end))
        pieces += [TextPiece(line[place:start], "")] if start > place else []
        pieces.append(TextPiece(line[start:end] or " ", mistake.message))
        place = end
    return (*pieces, TextPiece(line[place:], "")) if place < len(line) else tuple(pieces)


def _place(line: str, at: int) -> tuple[int, int]:
    word = next((word for word in WORD.finditer(line) if word.end() > at), None)
    if word is None:
        return len(line), len(line)
    behind = WORD.match(line, word.end()) if word[0] in "'\"" else None
    return word.start(), (behind or word).end()
