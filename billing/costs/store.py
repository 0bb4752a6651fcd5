"""Statements on the cost of capacity: reports of replicas' lives, and sums by the hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from billing.costs.attempts import AttemptCost
from billing.costs.capacity import AttemptCosts, BoughtCell, CapacitySums, Moved
from billing.costs.lifetimes import LifeReport
from billing.costs.tables import BoughtDay, CapacityHour, LifeReportRow
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import add_to, insert_rows
from billing.usage.rollup import CountedCall
from billing.usage.store import ATTEMPT

REPORT = table_of(LifeReportRow)
CAPACITY = table_of(CapacityHour)
BOUGHT = table_of(BoughtDay)
CELL = ("hour_us", "pool", "model")
SUMS = CapacitySums._fields
REPORTED = tuple(LifeReportRow.model_fields)
STREAMED = 2000


def add(conn: Connection, moved: Moved) -> None:
    """Add to the sums of each hour. Every writer goes in the same order, so that no two lock each
    other out."""
    rows = [(*cell, *moved[cell]) for cell in sorted(moved)]
    add_to(conn, CAPACITY, (*CELL, *SUMS), rows, SUMS)


def add_bought(conn: Connection, moved: Mapping[BoughtCell, int]) -> None:
    """Add to the sums of each day, in one order."""
    rows = [(*cell, moved[cell]) for cell in sorted(moved)]
    add_to(conn, BOUGHT, (*BoughtCell._fields, "bought_nanousd"), rows, ("bought_nanousd",))


def standing(conn: Connection, calls: Mapping[str, CountedCall]) -> dict[str, AttemptCosts]:
    """The costs of attempts of calls that are booked already."""
    if not calls:
        return {}
    costs = {rid: AttemptCosts(counts.hour_us, []) for rid, counts in calls.items()}
    names = ("rid", "pool", "model", "cost_nanousd", "bought_nanousd", "served", "replica")
    query = select(*(ATTEMPT.c[name] for name in names)).where(
        in_list(conn, ATTEMPT.c.rid, list(calls))
    )
    for rid, pool, model, cost, bought, served, replica in conn.execute(
        query.order_by(ATTEMPT.c.n)
    ):
        spent = costs[rid]
        more = AttemptCost(pool, model, cost, bought, bool(served), replica)
        costs[rid] = spent._replace(costs=[*spent.costs, more])
    return costs


def insert_reports(conn: Connection, reports: Sequence[LifeReport]) -> None:
    rows = [{name: getattr(report, name) for name in REPORTED} for report in reports]
    insert_rows(conn, REPORT, rows)


def reports_around(conn: Connection, replica: str, from_us: int) -> list[LifeReport]:
    """The reports of one replica in order: the last one before an instant, and all from then on."""
    before = (
        select(func.max(REPORT.c.until_us))
        .where(REPORT.c.replica == replica, REPORT.c.until_us < from_us)
        .scalar_subquery()
    )
    statement = select(REPORT).where(
        REPORT.c.replica == replica, REPORT.c.until_us >= func.coalesce(before, from_us)
    )
    rows = conn.execute(statement.order_by(REPORT.c.until_us)).mappings()
    return [_report(row) for row in rows]


def every_report(conn: Connection) -> Iterator[LifeReport]:
    """Every report, streamed: one replica after the other, each in its order."""
    ordered = select(REPORT).order_by(REPORT.c.replica, REPORT.c.until_us)
    for row in conn.execute(ordered.execution_options(yield_per=STREAMED)).mappings():
        yield _report(row)


def count_reports(conn: Connection) -> int:
    return int(conn.execute(select(func.count()).select_from(REPORT)).scalar_one())


def capacity(
    conn: Connection, from_us: int, to_us: int, group_by: Sequence[str]
) -> dict[tuple[Any, ...], CapacitySums]:
    """Sums of the whole hours in [from, to). They are grouped by any of pool, model and hour."""
    by = [CAPACITY.c[name] for name in group_by]
    sums = [func.coalesce(func.sum(CAPACITY.c[name]), 0) for name in SUMS]
    statement = (
        select(*by, *sums)
        .where(CAPACITY.c.hour_us >= from_us, CAPACITY.c.hour_us < to_us)
        .group_by(*by)
    )
    return {
        tuple(row[: len(by)]): CapacitySums(*map(int, row[len(by) :]))
        for row in conn.execute(statement)
    }


def bought(conn: Connection, from_us: int, to_us: int) -> dict[tuple[str, str], int]:
    """What was bought in the whole days in [from, to), in nano-USD, by pool and replica."""
    nanousd = func.sum(BOUGHT.c.bought_nanousd)
    statement = (
        select(BOUGHT.c.pool, BOUGHT.c.replica, nanousd)
        .where(BOUGHT.c.day_us >= from_us, BOUGHT.c.day_us < to_us)
        .group_by(BOUGHT.c.pool, BOUGHT.c.replica)
    )
    return {(pool, replica): int(amount) for pool, replica, amount in conn.execute(statement)}


def every_bought_day(conn: Connection) -> dict[BoughtCell, int]:
    """Those that are not zero."""
    cell = [BOUGHT.c[name] for name in BoughtCell._fields]
    statement = select(*cell, BOUGHT.c.bought_nanousd).where(BOUGHT.c.bought_nanousd != 0)
    return {BoughtCell(*row[:-1]): int(row[-1]) for row in conn.execute(statement)}


def _report(row: Mapping[Any, Any]) -> LifeReport:
    return LifeReport(**{**row, "ended": bool(row["ended"])})
