"""Statements that compare hourly sums with the best records, and daily sums with hourly ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Select,
    Subquery,
    Table,
    case,
    func,
    literal_column,
    or_,
    select,
    union_all,
)

from billing.db.first_rows import first_rows
from billing.usage.rollup import DAY_CELL, DAY_US, DIMENSIONS, HOUR_CELL, ORG_DAY_CELL, SUMMED
from billing.usage.rollups import DAY, HOUR, ORG_DAY
from billing.usage.store import EVENT
from billing.usage.sums import best_records, hour_of

WrongSums = list[tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]]
"""(cell, its sums as they stand, as they should be) where they differ."""


def next_day(conn: Connection, from_us: int) -> int | None:
    """The first day, from an instant on, that has calls or sums of calls."""
    firsts = (
        select(func.min(column)).where(column >= from_us)
        for column in (EVENT.c.ended_us, HOUR.c.hour_us, DAY.c.day_us, ORG_DAY.c.day_us)
    )
    instants = [at_us for one in firsts if (at_us := conn.execute(one).scalar_one()) is not None]
    return min(instants) // DAY_US * DAY_US if instants else None


def wrong_hours(conn: Connection, from_us: int, to_us: int) -> WrongSums:
    """Hours within [from, to) that are not the sums over the best records."""
    used = best_records({}, EVENT.c.ended_us >= from_us, EVENT.c.ended_us < to_us)
    by = [hour_of(used).label("hour_us"), *(used.c[name] for name in DIMENSIONS)]
    return _wrong_sums(
        conn, HOUR, HOUR_CELL, select(*by, *_sums_of(used)).group_by(*by), from_us, to_us
    )


def wrong_days(conn: Connection, from_us: int, to_us: int) -> WrongSums:
    """Days within [from, to) that are not the sums of their hours."""
    width = literal_column(str(DAY_US), Integer)
    by = [
        (HOUR.c.hour_us - HOUR.c.hour_us % width).label("day_us"),
        *(HOUR.c[name] for name in DIMENSIONS),
    ]
    real = select(*by, *_sums_of(HOUR)).group_by(*by)
    within = real.where(HOUR.c.hour_us >= from_us, HOUR.c.hour_us < to_us)
    return _wrong_sums(conn, DAY, DAY_CELL, within, from_us, to_us)


def wrong_org_days(conn: Connection, from_us: int, to_us: int) -> WrongSums:
    """Days of organizations within [from, to) that are not the sums of their days."""
    by = [DAY.c[name] for name in ORG_DAY_CELL]
    real = select(*by, *_sums_of(DAY)).group_by(*by)
    within = real.where(DAY.c.day_us >= from_us, DAY.c.day_us < to_us)
    return _wrong_sums(conn, ORG_DAY, ORG_DAY_CELL, within, from_us, to_us)


def _sums_of(summed: FromClause) -> Iterator[ColumnElement[int]]:
    return (func.sum(summed.c[name]) for name in SUMMED)


def _wrong_sums(
    conn: Connection,
    table: Table,
    key: Sequence[str],
    real: Select[Any],
    from_us: int,
    to_us: int,
) -> WrongSums:
    """Compare a table of sums with the sums of a finer table by the same key."""
    at_us = table.c[key[0]]
    stands = select(*(table.c[name] for name in (*key, *SUMMED)), literal_column("1").label("side"))
    within = stands.where(at_us >= from_us, at_us < to_us)
    both = union_all(within, real.add_columns(literal_column("0"))).subquery("both")
    cell = [both.c[name] for name in key]
    actual = [_side(both, name, 1) for name in SUMMED]
    due = [_side(both, name, 0) for name in SUMMED]
    differs = or_(*(one != other for one, other in zip(actual, due, strict=True)))
    statement = select(*cell, *actual, *due).group_by(*cell).having(differs).order_by(*cell)
    return [
        (
            tuple(row[: len(key)]),
            tuple(map(int, row[len(key) : -len(SUMMED)])),
            tuple(map(int, row[-len(SUMMED) :])),
        )
        for row in first_rows(conn, statement)
    ]


def _side(both: Subquery, name: str, side: int) -> ColumnElement[int]:
    return func.sum(case((both.c.side == literal_column(str(side)), both.c[name]), else_=0))
