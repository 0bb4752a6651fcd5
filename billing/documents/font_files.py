"""Files of fonts that an operator names: that they are there and are fonts, as settings are read.

Cheap, and without a library of fonts, for every process reads the settings.
"""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".ttf", ".otf", ".ttc", ".otc")
BEGINNINGS = (b"\0\1\0\0", b"OTTO", b"true", b"ttcf")
"""Of TrueType, OpenType, Apple's TrueType, and a collection of them."""


def check_fonts(path: Path) -> None:
    """Raises ValueError for what is no file of a font and no folder with one."""
    try:
        files = [path] if not path.is_dir() else files_of(path)
        if not any(_is_font(file) for file in files):
            raise ValueError(f"no font in '{path}': a font is a {', '.join(SUFFIXES)} file")
    except OSError as wrong:
        raise ValueError(f"no font in '{path}': {wrong.strerror or wrong}") from wrong


def files_of(folder: Path) -> list[Path]:
    """Its files that are named as fonts, those of its folders too."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES)


def _is_font(file: Path) -> bool:
    with file.open("rb") as opened:
        return file.suffix.lower() in SUFFIXES and opened.read(4) in BEGINNINGS
