"""Statements that look for broken laws of the cost of goods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Row, case, func, literal_column, select

from billing.costs.capacity import BoughtCell
from billing.costs.lifetimes import Cell
from billing.costs.store import REPORT
from billing.db.first_rows import first_rows
from billing.ledger.store import ACCOUNT
from billing.usage.rollup import DAY_US, HOUR_US
from billing.usage.rollups import DAY
from billing.usage.store import ATTEMPT, CORRECTION, EVENT

HEARD_US = 20_000_000
PREFIXES = ("cogs:pool:", "unallocated:", "payable:pool:")


def balances(conn: Connection) -> dict[str, int]:
    """Debits less credits of every account of capacity."""
    net = ACCOUNT.c.debits - ACCOUNT.c.credits
    of_costs = [ACCOUNT.c.code.startswith(prefix, autoescape=True) for prefix in PREFIXES]
    statement = select(ACCOUNT.c.code, net).where(of_costs[0] | of_costs[1] | of_costs[2])
    return {code: int(balance) for code, balance in conn.execute(statement)}


def costs_of_pools(conn: Connection) -> dict[str, int]:
    """The cost of calls by the pool that served them, from the sums of usage."""
    cost = func.sum(DAY.c.cost_nanousd)
    statement = select(DAY.c.pool, cost).group_by(DAY.c.pool).having(cost != 0)
    return {pool: int(spent) for pool, spent in conn.execute(statement)}


def attempts_by_hour(conn: Connection) -> Iterator[tuple[Cell, int, int]]:
    """For each cell the cost that its attempts bought, and the cost of those that served nobody."""
    hour_us = _whole(EVENT.c.ended_us, HOUR_US)
    wasted = func.sum(case((ATTEMPT.c.served, 0), else_=ATTEMPT.c.cost_nanousd))
    statement = (
        select(hour_us, ATTEMPT.c.pool, ATTEMPT.c.model, func.sum(ATTEMPT.c.bought_nanousd), wasted)
        .join(EVENT, EVENT.c.rid == ATTEMPT.c.rid)
        .where((ATTEMPT.c.bought_nanousd != 0) | ~ATTEMPT.c.served)
        .group_by(hour_us, ATTEMPT.c.pool, ATTEMPT.c.model)
    )
    for hour, pool, model, bought, lost in conn.execute(statement):
        yield Cell(int(hour), pool, model), int(bought), int(lost)


def bought_by_day(conn: Connection) -> dict[BoughtCell, int]:
    """What attempts bought, by the day in which their call counts."""
    day_us = _whole(EVENT.c.ended_us, DAY_US)
    statement = (
        select(day_us, ATTEMPT.c.pool, ATTEMPT.c.replica, func.sum(ATTEMPT.c.bought_nanousd))
        .join(EVENT, EVENT.c.rid == ATTEMPT.c.rid)
        .where(ATTEMPT.c.bought_nanousd != literal_column("0", Integer))
        .group_by(day_us, ATTEMPT.c.pool, ATTEMPT.c.replica)
    )
    return {
        BoughtCell(int(day), pool, replica): int(amount)
        for day, pool, replica, amount in conn.execute(statement)
    }


def costs_unlike_attempts(conn: Connection) -> list[tuple[Any, ...]]:
    """Calls whose cost on record is not that of the attempt that served: (rid, cost on record, cost
    of the attempt)."""
    better = select(CORRECTION.c.rid).where(CORRECTION.c.rid == EVENT.c.rid)
    newest = (
        select(CORRECTION.c.cost_nanousd)
        .where(CORRECTION.c.rid == EVENT.c.rid)
        .order_by(CORRECTION.c.n.desc())
        .limit(1)
        .scalar_subquery()
    )
    stands = case((better.exists(), newest), else_=EVENT.c.cost_nanousd)
    serving = ATTEMPT.alias("served")
    cost = func.coalesce(serving.c.cost_nanousd, 0)
    statement = (
        select(EVENT.c.rid, stands, cost)
        .select_from(EVENT.outerjoin(serving, (serving.c.rid == EVENT.c.rid) & serving.c.served))
        .where(stands != cost)
    )
    return [tuple(row) for row in first_rows(conn, statement)]


def newest_attempts(conn: Connection, limit: int) -> Iterator[Row[Any]]:
    """The attempts of the newest calls. Request ids begin with the time, so their order is that of
    time."""
    newest = select(ATTEMPT).order_by(ATTEMPT.c.rid.desc(), ATTEMPT.c.n).limit(limit)
    yield from conn.execute(newest.execution_options(yield_per=2000))


def shares_beyond_lives(conn: Connection) -> list[tuple[Any, ...]]:
    """Replicas that have ended and whose calls were given more time than they computed: (replica,
    shares of its calls, time computed). The last report of a replica may be as old as `HEARD_US`,
    so calls that ended later do not count."""
    last_reports = select(REPORT).where(REPORT.c.ended).subquery()
    shared = func.sum(ATTEMPT.c.busy_us)
    statement = (
        select(last_reports.c.replica, shared, last_reports.c.busy_us)
        .join(ATTEMPT, ATTEMPT.c.replica == last_reports.c.replica)
        .where(ATTEMPT.c.busy_us > 0, ATTEMPT.c.ended_us <= last_reports.c.until_us - HEARD_US)
        .group_by(last_reports.c.replica, last_reports.c.until_us, last_reports.c.busy_us)
        .having(shared > last_reports.c.busy_us)
    )
    return [tuple(row) for row in first_rows(conn, statement)]


def count_ended(conn: Connection) -> int:
    """The number of replicas that have ended."""
    statement = select(func.count()).select_from(REPORT).where(REPORT.c.ended)
    return int(conn.execute(statement).scalar_one())


def _whole(at_us: ColumnElement[int], span_us: int) -> ColumnElement[int]:
    """The hour or day of a column. The width is written out, because PostgreSQL groups by equal
    text and not by equal parameters."""
    width: ColumnElement[int] = literal_column(str(span_us), Integer)
    return at_us - at_us % width
