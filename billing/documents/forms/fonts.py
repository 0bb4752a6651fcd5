"""The fonts of a page: typst's own, and those that an operator names for what these lack.

Of a collection (`.ttc`) the first family counts: its others differ in how they look and not in
what they have. A family with two weights has what both have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typst

from billing.documents.forms.glyphs import built_in

MISSING_GLYPH = "0"


class NoFont(Exception):
    """A file that was named cannot be read as a font."""


@dataclass(frozen=True, slots=True)
class Fonts:
    book: Any
    """For typst."""
    families: tuple[str, ...]
    """As they are asked for, one after the other, behind Libertinus Serif."""
    covered: frozenset[int]


@cache
def fonts_of(paths: tuple[str, ...]) -> Fonts:
    """Raises NoFont."""
    families: dict[str, frozenset[int]] = {}
    for path in paths:
        for face in _faces(path):
            has = _characters(face)
            families[face.family] = families.get(face.family, has) & has
    covered = built_in().union(*families.values())
    return Fonts(_book(*paths, with_own=True), tuple(families), covered)


def _faces(path: str) -> Iterator[Any]:
    """In one order on each machine."""
    faces = sorted(_book(path).fonts(), key=lambda face: (face.path, face.index))
    if not faces:
        raise NoFont(f"no font in '{path}'")
    first = {face.path: face.family for face in reversed(faces)}
    return (face for face in faces if face.family == first[face.path])


def _book(*paths: str, with_own: bool = False) -> Any:
    """typst looks into folders alone, and knows where a link leads."""
    with TemporaryDirectory() as folder:
        for number, path in enumerate(map(Path, paths)):
            Path(folder, f"{number}{path.suffix}").symlink_to(path.absolute())
        return typst.Fonts(
            include_system_fonts=False, include_embedded_fonts=with_own, font_paths=[folder]
        )


def _characters(face: Any) -> frozenset[int]:
    """By the table of the file. Glyphs are named by their number: their names take long to read."""
    from fontTools.ttLib import TTFont, TTLibError

    try:
        with TTFont(face.path, fontNumber=face.index, lazy=True) as font:
            font.setGlyphOrder([str(number) for number in range(font["maxp"].numGlyphs)])
            glyphs = font.getBestCmap() or {}
    except (TTLibError, OSError, KeyError) as wrong:
        raise NoFont(f"no font in '{face.path}': {wrong}") from wrong
    return frozenset(code for code, glyph in glyphs.items() if glyph != MISSING_GLYPH)
