"""Statements that look for broken laws of the cost of goods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Row, case, func, literal_column, select

from billing.costs.lifetimes import Cell
from billing.rollup import HOUR_US
from billing.store.costs import REPORT
from billing.store.few import few
from billing.store.rollups import DAY
from billing.store.transfers import ACCOUNT
from billing.store.usage import ATTEMPT, CORRECTION, EVENT

HEARD_US = 20_000_000
PREFIXES = ("cogs:pool:", "unallocated:pool:", "payable:pool:")


def balances(conn: Connection) -> dict[str, int]:
    """Debits less credits of every account of capacity."""
    net = ACCOUNT.c.debits - ACCOUNT.c.credits
    ours = [ACCOUNT.c.code.startswith(prefix, autoescape=True) for prefix in PREFIXES]
    asked = select(ACCOUNT.c.code, net).where(ours[0] | ours[1] | ours[2])
    return {code: int(balance) for code, balance in conn.execute(asked)}


def costs_of_pools(conn: Connection) -> dict[str, int]:
    """What calls cost, by the pool that served them, from the sums of usage."""
    cost = func.sum(DAY.c.cost_nanousd)
    asked = select(DAY.c.pool, cost).group_by(DAY.c.pool).having(cost != 0)
    return {pool: int(spent) for pool, spent in conn.execute(asked)}


def attempts_by_hour(conn: Connection) -> Iterator[tuple[Cell, int, int]]:
    """By cell what attempts bought, and what those that served nobody cost."""
    hour_us = _hour(EVENT.c.ended_us)
    wasted = func.sum(case((ATTEMPT.c.served, 0), else_=ATTEMPT.c.cost_nanousd))
    asked = (
        select(hour_us, ATTEMPT.c.pool, ATTEMPT.c.model, func.sum(ATTEMPT.c.bought_nanousd), wasted)
        .join(EVENT, EVENT.c.rid == ATTEMPT.c.rid)
        .where((ATTEMPT.c.bought_nanousd != 0) | ~ATTEMPT.c.served)
        .group_by(hour_us, ATTEMPT.c.pool, ATTEMPT.c.model)
    )
    for hour, pool, model, bought, lost in conn.execute(asked):
        yield Cell(int(hour), pool, model), int(bought), int(lost)


def costs_unlike_attempts(conn: Connection) -> list[tuple[Any, ...]]:
    """(rid, cost on record, cost of the attempt that served) where they differ."""
    better = select(CORRECTION.c.rid).where(CORRECTION.c.rid == EVENT.c.rid)
    newest = (
        select(CORRECTION.c.cost_nanousd)
        .where(CORRECTION.c.rid == EVENT.c.rid)
        .order_by(CORRECTION.c.n.desc())
        .limit(1)
        .scalar_subquery()
    )
    stands = case((better.exists(), newest), else_=EVENT.c.cost_nanousd)
    served = ATTEMPT.alias("served")
    cost = func.coalesce(served.c.cost_nanousd, 0)
    asked = (
        select(EVENT.c.rid, stands, cost)
        .select_from(EVENT.outerjoin(served, (served.c.rid == EVENT.c.rid) & served.c.served))
        .where(stands != cost)
    )
    return [tuple(row) for row in few(conn, asked)]


def newest_attempts(conn: Connection, limit: int) -> Iterator[Row[Any]]:
    """Of the newest calls, by their ids, which begin with the time."""
    newest = select(ATTEMPT).order_by(ATTEMPT.c.rid.desc(), ATTEMPT.c.n).limit(limit)
    yield from conn.execute(newest.execution_options(yield_per=2000))


def shares_beyond_lives(conn: Connection) -> list[tuple[Any, ...]]:
    """(replica, shares of its calls, what it computed in all) of replicas that have ended. What was
    last heard of one may be as old as `HEARD_US`, so calls that ended later do not count."""
    ended = select(REPORT).where(REPORT.c.ended).subquery()
    shared = func.sum(ATTEMPT.c.busy_us)
    asked = (
        select(ended.c.replica, shared, ended.c.busy_us)
        .join(ATTEMPT, ATTEMPT.c.replica == ended.c.replica)
        .where(ATTEMPT.c.busy_us > 0, ATTEMPT.c.ended_us <= ended.c.until_us - HEARD_US)
        .group_by(ended.c.replica, ended.c.until_us, ended.c.busy_us)
        .having(shared > ended.c.busy_us)
    )
    return [tuple(row) for row in few(conn, asked)]


def count_ended(conn: Connection) -> int:
    """Replicas that have ended."""
    asked = select(func.count()).select_from(REPORT).where(REPORT.c.ended)
    return int(conn.execute(asked).scalar_one())


def _hour(at_us: ColumnElement[int]) -> ColumnElement[int]:
    """The width is written out: PostgreSQL groups by equal text, not by equal parameters."""
    width: ColumnElement[int] = literal_column(str(HOUR_US), Integer)
    return at_us - at_us % width
