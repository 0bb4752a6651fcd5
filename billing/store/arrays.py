"""Columns of values as PostgreSQL reads an array: one text. The driver would look up how to write
each value by its type, which costs more than all else that is done to a batch's sums."""

from __future__ import annotations

from collections.abc import Iterable


def array_text(values: Iterable[object]) -> str:
    """Of texts, whole numbers, truth values and None."""
    return "{" + ",".join(map(_element, values)) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
