"""Statements on the cost of capacity: reports of replicas' lives, and sums by the hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from billing.costs.attempts import AttemptCost
from billing.costs.capacity import CapacitySums, Moved, Spent
from billing.costs.lifetimes import LifeReport
from billing.rollup import Standing
from billing.store.among import among
from billing.store.insert import add_to, insert_rows
from billing.store.usage import ATTEMPT
from billing.tables import CapacityHour, LifeReportRow, table_of

REPORT = table_of(LifeReportRow)
CAPACITY = table_of(CapacityHour)
CELL = ("hour_us", "pool", "model")
SUMS = CapacitySums._fields
REPORTED = tuple(LifeReportRow.model_fields)
STREAMED = 2000


def add(conn: Connection, moved: Moved) -> None:
    """Add to the sums of each hour, in one order whoever writes."""
    rows = [(*cell, *moved[cell]) for cell in sorted(moved)]
    add_to(conn, CAPACITY, (*CELL, *SUMS), rows, SUMS)


def standing(conn: Connection, counted: Mapping[str, Standing]) -> dict[str, Spent]:
    """What the attempts of calls that are booked already cost so far."""
    if not counted:
        return {}
    found = {rid: Spent(counts.hour_us, []) for rid, counts in counted.items()}
    names = ("rid", "pool", "model", "cost_nanousd", "bought_nanousd", "served")
    asked = select(*(ATTEMPT.c[name] for name in names)).where(
        among(conn, ATTEMPT.c.rid, list(counted))
    )
    for rid, pool, model, cost, bought, served in conn.execute(asked.order_by(ATTEMPT.c.n)):
        spent = found[rid]
        more = AttemptCost(pool, model, cost, bought, bool(served))
        found[rid] = spent._replace(costs=[*spent.costs, more])
    return found


def insert_reports(conn: Connection, reports: Sequence[LifeReport]) -> None:
    rows = [{name: getattr(report, name) for name in REPORTED} for report in reports]
    insert_rows(conn, REPORT, rows)


def reports_around(conn: Connection, replica: str, from_us: int) -> list[LifeReport]:
    """Of one replica: the last report before an instant, and all from then on, in order."""
    before = (
        select(func.max(REPORT.c.until_us))
        .where(REPORT.c.replica == replica, REPORT.c.until_us < from_us)
        .scalar_subquery()
    )
    asked = select(REPORT).where(
        REPORT.c.replica == replica, REPORT.c.until_us >= func.coalesce(before, from_us)
    )
    rows = conn.execute(asked.order_by(REPORT.c.until_us)).mappings()
    return [_report(row) for row in rows]


def every_report(conn: Connection) -> Iterator[LifeReport]:
    """All of them, streamed: one replica after the other, each in its order."""
    ordered = select(REPORT).order_by(REPORT.c.replica, REPORT.c.until_us)
    for row in conn.execute(ordered.execution_options(yield_per=STREAMED)).mappings():
        yield _report(row)


def count_reports(conn: Connection) -> int:
    return int(conn.execute(select(func.count()).select_from(REPORT)).scalar_one())


def capacity(
    conn: Connection, from_us: int, to_us: int, group_by: Sequence[str]
) -> dict[tuple[Any, ...], CapacitySums]:
    """Sums of the whole hours in [from, to), by pool, model and hour or fewer of them."""
    by = [CAPACITY.c[name] for name in group_by]
    sums = [func.coalesce(func.sum(CAPACITY.c[name]), 0) for name in SUMS]
    asked = (
        select(*by, *sums)
        .where(CAPACITY.c.hour_us >= from_us, CAPACITY.c.hour_us < to_us)
        .group_by(*by)
    )
    return {
        tuple(row[: len(by)]): CapacitySums(*map(int, row[len(by) :]))
        for row in conn.execute(asked)
    }


def _report(row: Mapping[Any, Any]) -> LifeReport:
    return LifeReport(**{**row, "ended": bool(row["ended"])})
