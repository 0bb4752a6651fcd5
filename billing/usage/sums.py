"""Sums over usage: what each scope has spent, and summaries for people.

Whole days are read from the daily sums. The rest of a range, before and after them, is read from
the hourly sums. Only the events of an hour that a range cuts are read one by one, led by an index.
The log as a whole is never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    Table,
    collate,
    func,
    literal,
    literal_column,
    select,
    tuple_,
    union_all,
)

from billing.db.in_list import in_list
from billing.usage.rollup import COUNTS, DAY_US, DIMENSIONS, HOUR_US, ORG_DIMENSIONS, SUMMED
from billing.usage.rollups import DAY, HOUR, ORG_DAY
from billing.usage.store import CORRECTION, EVENT

EVER_US = 1 << 62
MINUTE_US = 60_000_000
BUCKETS_US = {"day": DAY_US, "hour": HOUR_US, "minute": MINUTE_US}
WIDEST_US = {"minute": 0, "hour": HOUR_US}
"""The widest sums that may be read for what is grouped so: 0 is none, but the events themselves."""
Filters = Mapping[str, Sequence[Any]]
"""By dimension the values that count; a dimension that is absent is not looked at."""
GroupSum = tuple[dict[str, Any], tuple[int, ...]]
"""A group's values, and its sums in the order of SUMMED."""


@dataclass(frozen=True, slots=True)
class SpentRow:
    """Nano-USD charged to one key in one UTC month of admission."""

    org: str
    project: str
    key: str
    month: str
    amount_nanousd: int


def spent(conn: Connection, org: str | None = None) -> list[SpentRow]:
    """Everything that was ever charged, net of corrections."""
    by = (DAY.c.org, DAY.c.project, DAY.c.key, DAY.c.month)
    amount = func.sum(DAY.c.amount_nanousd)
    statement = select(*by, amount).group_by(*by).having(amount > 0)
    if org is not None:
        ever = _within(conn, DAY.c.day_us, 0, EVER_US, DAY_US, one_by_one=True)
        if ever is None:
            return []
        statement = statement.where(ever, DAY.c.org == org)
    return [
        SpentRow(org_id, project, key, month, int(charged))
        for org_id, project, key, month, charged in conn.execute(statement)
    ]


def summary(
    conn: Connection,
    from_us: int,
    to_us: int,
    group_by: Sequence[str],
    filters: Filters,
    after: Sequence[Any] = (),
    limit: int | None = None,
) -> list[GroupSum]:
    """Sums of the calls whose first record ended in [from, to), by group and in the order of
    groups.

    There are at most `limit` groups, the first after the group `after`. The first groups of the
    whole are among the first groups of every part. Without a group there is one row, of zeros if
    nothing happened.
    """
    by_group: dict[tuple[Any, ...], tuple[int, ...]] = {}
    text = "C" if conn.dialect.name == "postgresql" else "BINARY"  # as Python compares
    widest_us = next((each for name, each in WIDEST_US.items() if name in group_by), DAY_US)
    dimensions = {*group_by, *filters} - {"day"}
    tables = {HOUR_US: HOUR, DAY_US: ORG_DAY if dimensions <= {*ORG_DIMENSIONS} else DAY}
    for part in _parts(conn, tables, from_us, to_us, filters, widest_us):
        by = [_dimension(part, name) for name in group_by]
        ordered = [_collated(column, text) for column in by]
        statement = _grouped(part, by).order_by(*ordered).limit(limit)
        if after:
            statement = statement.where(tuple_(*ordered) > tuple_(*map(literal, after)))
        for row in conn.execute(statement):
            group = tuple(row[: len(by)])
            sums = tuple(int(value) for value in row[len(by) :])
            before = by_group.get(group)
            by_group[group] = _plus(before, sums) if before else sums
    if not group_by:
        by_group.setdefault((), (0,) * len(SUMMED))
    groups = sorted(by_group)[:limit]
    return [(dict(zip(group_by, group, strict=True)), by_group[group]) for group in groups]


def _parts(
    conn: Connection,
    tables: Mapping[int, Table],
    from_us: int,
    to_us: int,
    filters: Filters,
    widest_us: int,
) -> Iterator[FromClause]:
    """The parts of a range: whole days where possible, whole hours before and after them, and
    pieces of an hour before and after those. `tables` has the sums of each width."""
    finer = {DAY_US: HOUR_US, HOUR_US: 0}
    if not widest_us:
        yield _cut(from_us, to_us, filters)
        return
    first_us = -(-from_us // widest_us) * widest_us
    last_us = to_us - to_us % widest_us
    if first_us >= last_us:
        yield from _parts(conn, tables, from_us, to_us, filters, finer[widest_us])
        return
    if from_us < first_us:
        yield from _parts(conn, tables, from_us, first_us, filters, finer[widest_us])
    yield from _whole(conn, tables[widest_us], first_us, last_us, filters, widest_us)
    if last_us < to_us:
        yield from _parts(conn, tables, last_us, to_us, filters, finer[widest_us])


def _cut(from_us: int, to_us: int, filters: Filters) -> FromClause:
    return best_records(filters, EVENT.c.ended_us >= from_us, EVENT.c.ended_us < to_us)


def _whole(
    conn: Connection, table: Table, from_us: int, to_us: int, filters: Filters, width_us: int
) -> Iterator[FromClause]:
    at_us = table.c["hour_us" if width_us == HOUR_US else "day_us"]
    names = [name for name in (*DIMENSIONS, *SUMMED) if name in table.c]
    sums = select(at_us.label("at_us"), *(table.c[name] for name in names))
    within = _within(conn, at_us, from_us, to_us, width_us, one_by_one="org" in filters)
    if within is not None:
        yield _filtered(sums.where(within), table, filters).subquery("used")


def _within(
    conn: Connection,
    at_us: Column[Any],
    from_us: int,
    to_us: int,
    width_us: int,
    *,
    one_by_one: bool,
) -> ColumnElement[bool] | None:
    """The condition, or None if there are no rows. Keys begin with the instant and the
    organization. So a question about one organization names every instant from the first to the
    last."""
    within = (at_us >= from_us) & (at_us < to_us)
    if not one_by_one:
        return within
    first, last = select(func.min(at_us)).where(within), select(func.max(at_us)).where(within)
    first_us, last_us = (conn.execute(end).scalar_one() for end in (first, last))
    if first_us is None:
        return None
    in_span: ColumnElement[bool] = in_list(conn, at_us, range(first_us, last_us + 1, width_us))
    return in_span


def best_records(filters: Filters, *within: ColumnElement[bool]) -> FromClause:
    """The columns of the best record of every call whose event is `within`. `at_us` is when the
    first record ended, `requests` is 1."""
    at_us = EVENT.c.ended_us.label("at_us")
    one: ColumnElement[int] = literal_column("1").label("requests")
    names = (*DIMENSIONS, *COUNTS)
    better = CORRECTION.alias("better")
    newest = select(func.max(better.c.n)).where(better.c.rid == EVENT.c.rid).scalar_subquery()
    untouched = select(at_us, *(EVENT.c[name] for name in names), one).where(
        *within, ~select(better.c.rid).where(better.c.rid == EVENT.c.rid).exists()
    )
    corrected = (
        select(at_us, *(CORRECTION.c[name] for name in names), one)
        .select_from(EVENT.join(CORRECTION, CORRECTION.c.rid == EVENT.c.rid))
        .where(*within, CORRECTION.c.n == newest)
    )
    if "org" in filters:  # all records of a call have its organization: let the index lead
        corrected = _filtered(corrected, EVENT, {"org": filters["org"]})
    return union_all(
        _filtered(untouched, EVENT, filters), _filtered(corrected, CORRECTION, filters)
    ).subquery("used")


def _filtered(statement: Select[Any], table: FromClause, filters: Filters) -> Select[Any]:
    for name, values in filters.items():
        column = table.c[name]
        same = column == values[0] if len(values) == 1 else column.in_(values)
        statement = statement.where(same)
    return statement


def _grouped(used: FromClause, by: Sequence[ColumnElement[Any]]) -> Select[Any]:
    labels = (column.label(f"by_{place}") for place, column in enumerate(by))
    sums = (func.coalesce(func.sum(used.c[name]), 0) for name in SUMMED)
    return select(*labels, *sums).group_by(*by)


def _collated(column: ColumnElement[Any], collation: str) -> ColumnElement[Any]:
    return collate(column, collation) if isinstance(column.type, String) else column


def hour_of(used: FromClause) -> ColumnElement[int]:
    """The first instant of the hour in which `at_us` lies."""
    return _floor(used, HOUR_US)


def _dimension(used: FromClause, name: str) -> ColumnElement[Any]:
    if width_us := BUCKETS_US.get(name):
        return _floor(used, width_us)
    column: ColumnElement[Any] = used.c[name]
    return column


def _floor(used: FromClause, width_us: int) -> ColumnElement[int]:
    """The beginning of the span in which `at_us` lies. The width is written out, because PostgreSQL
    groups by equal text and not by equal parameters."""
    at_us: ColumnElement[int] = used.c.at_us
    width: ColumnElement[int] = literal_column(str(width_us))
    return at_us - at_us % width


def _plus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))
