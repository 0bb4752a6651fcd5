"""Answers as people read them: tables of text. A cell is one line, whatever a name contains."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

Row = Mapping[str, Any]
GAP = "  "
NOTHING = "-"


def print_json(answer: Any) -> None:
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False))


def print_rows(rows: Iterable[Row], empty: str) -> None:
    """A table with the names of the first row as its head; `empty` says that there is none."""
    cells = [{name: _cell(value) for name, value in row.items()} for row in rows]
    if not cells:
        click.echo(empty)
        return
    names = list(cells[0])
    widths = {name: max(len(name), *(len(row[name]) for row in cells)) for name in names}
    numeric = {name for name in names if all(_is_number(row[name]) for row in cells)}
    lines = [{name: name.upper() for name in names}, *cells]
    for line in lines:
        padded = [
            line[name].rjust(widths[name]) if name in numeric else line[name].ljust(widths[name])
            for name in names
        ]
        click.echo(GAP.join(padded).rstrip())


def print_fields(row: Row) -> None:
    """One thing: a line for each of its fields."""
    width = max(map(len, row))
    for name, value in row.items():
        click.echo(f"{name.ljust(width)}{GAP}{_cell(value)}")


def show_one(row: Row, *, as_json: bool, quiet: bool = False) -> None:
    if as_json:
        print_json(row)
    elif quiet:
        click.echo(row["id"])
    else:
        print_fields(without(row, "object"))


def counted(number: int, noun: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fields(row: Row, *names: str) -> dict[str, Any]:
    return {name: row.get(name) for name in names}


def without(row: Row, *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def _cell(value: Any) -> str:
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_cell, value)) or NOTHING
    return _one_line(_instant(str(value)))


def _instant(text: str) -> str:
    """ISO 8601 in UTC without its fraction: 2026-11-22T21:24:31Z."""
    if len(text) >= 25 and text[10] == "T" and text.endswith("+00:00"):
        return f"{text[:19]}Z"
    return text


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _is_number(text: str) -> bool:
    return text == NOTHING or text.replace(".", "", 1).replace("-", "", 1).isdigit()
