"""Tables and words as Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. It is empty where there are no rows."""
    lines = [line(row) for row in rows]
    return "\n".join([line(head), line(["---"] * len(head)), *lines, "\n"]) if lines else ""


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
