"""Values of a column as PostgreSQL reads an array: one text. The driver would look up how to write
each value by its type. That costs more than all other work on a batch's sums."""

from __future__ import annotations

from collections.abc import Iterable


def array_text(values: Iterable[object]) -> str:
    """The text of an array of texts, whole numbers, truth values and None."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
