"""Laws of the cost of goods. What is allocated and what is not are the bill. All of it can be
recomputed from the reports of replicas and the attempts of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row

from billing.costs import audit as audit_costs
from billing.costs import store as costs
from billing.costs.attempts import bought_nanousd, cost_nanousd
from billing.costs.capacity import CapacitySums, cogs, of_bills, payable, plus, unallocated
from billing.costs.lifetimes import Bill, Cell, bills
from billing.ledger.report import Check, judged
from billing.types import Attempt

RECOSTED_MAX = 100_000
"""Attempts of the newest calls whose cost is reckoned again."""
PRICED = tuple(name for name in Attempt.__struct_fields__ if name not in ("outcome",))


def accounts_add_up(conn: Connection) -> Check:
    hours, spent = _hours(conn), audit_costs.costs_of_pools(conn)
    balances = audit_costs.balances(conn)
    return judged(
        "C1 capacity_accounts",
        "the cost of goods and what is unallocated are the bill of each pool, and each account is "
        "what its sums say",
        _wrong_accounts(balances, hours, spent),
        len(balances),
    )


def hours_recompute(conn: Connection) -> Check:
    return judged(
        "C2 capacity_hours",
        "the sums of capacity are those of the lives of replicas and the attempts of calls",
        _wrong_hours(conn, _hours(conn)),
        costs.count_reports(conn),
    )


def costs_recompute(conn: Connection) -> Check:
    count = 0

    def wrong() -> Iterator[str]:
        nonlocal count
        for rid, stands, served in audit_costs.costs_unlike_attempts(conn):
            yield f"{rid}: costs {stands}, the attempt that served it {served}"
        for row in audit_costs.newest_attempts(conn, RECOSTED_MAX):
            count += 1
            if problem := _wrong_cost(row):
                yield problem

    first_break = next(wrong(), None)
    return judged(
        "C3 costs_of_attempts",
        "a call costs what the attempt it is charged for does, by the prices frozen on it",
        [first_break] if first_break else [],
        count,
    )


def shares_within_lives(conn: Connection) -> Check:
    return judged(
        "C4 shares_within_lives",
        "the calls of a replica never share more than it computed",
        (
            f"{replica}: its calls share {shared} us, it computed {computed}"
            for replica, shared, computed in audit_costs.shares_beyond_lives(conn)
        ),
        audit_costs.count_ended(conn),
    )


def bought_recomputes(conn: Connection) -> Check:
    """That the sum over keys is what a pool's hours have of it follows: C2 sums the same
    attempts."""
    stands, real = costs.every_bought_day(conn), audit_costs.bought_by_day(conn)
    return judged(
        "C5 bought_days",
        "what was bought each day with each key of a provider is what the attempts there bought",
        (
            f"{cell.day_us} {cell.replica}: stands at {stands.get(cell, 0)}, "
            f"should be {real.get(cell, 0)}"
            for cell in sorted({*stands, *real})
            if stands.get(cell, 0) != real.get(cell, 0)
        ),
        len(real),
    )


LAWS = (accounts_add_up, hours_recompute, costs_recompute, shares_within_lives, bought_recomputes)
"""Each has a snapshot of its own."""


def _hours(conn: Connection) -> dict[Cell, CapacitySums]:
    hours = costs.capacity(conn, 0, 2**63 - 1, costs.CELL)
    return {Cell(*cell): sums for cell, sums in hours.items() if any(sums)}


def _wrong_accounts(
    balances: Mapping[str, int], hours: Mapping[Cell, CapacitySums], spent: Mapping[str, int]
) -> Iterator[str]:
    pools: dict[str, CapacitySums] = {}
    for cell, sums in hours.items():
        pools[cell.pool] = plus(pools.get(cell.pool, CapacitySums()), sums)
    expected: dict[str, int] = {}
    for pool in {*pools, *spent}:
        sums, cost = pools.get(pool, CapacitySums()), spent.get(pool, 0)
        expected |= {
            cogs(pool): cost,
            payable(pool): -sums.bill_nanousd,
            unallocated(pool, "cold_start"): sums.cold_start_nanousd,
            unallocated(pool, "idle"): sums.idle_nanousd,
            unallocated(pool, "wasted"): sums.wasted_nanousd,
            unallocated(pool, "busy"): sums.busy_nanousd - sums.wasted_nanousd - cost,
        }
    for code in sorted({*expected, *balances}):
        stands, balance = balances.get(code, 0), expected.get(code, 0)
        if stands != balance:
            yield f"{code}: stands at {stands}, its sums give {balance}"


def _wrong_hours(conn: Connection, stands: Mapping[Cell, CapacitySums]) -> Iterator[str]:
    real: dict[Cell, CapacitySums] = {}
    for cell, sums in _all_sums(conn):
        real[cell] = plus(real.get(cell, CapacitySums()), sums)
    for cell in sorted({*stands, *real}):
        actual, due = stands.get(cell, CapacitySums()), real.get(cell, CapacitySums())
        if actual != due:
            yield f"{cell.hour_us} {cell.pool} {cell.model}: stands at {actual}, should be {due}"


def _all_sums(conn: Connection) -> Iterator[tuple[Cell, CapacitySums]]:
    lives: dict[Cell, Bill] = {}
    for _, reports in groupby(costs.every_report(conn), key=lambda report: report.replica):
        for cell, bill in bills(list(reports)).items():
            lives[cell] = lives.get(cell, Bill()).plus(bill)
    yield from of_bills(lives).items()
    for cell, bought, wasted in audit_costs.attempts_by_hour(conn):
        yield cell, CapacitySums(busy_nanousd=bought, wasted_nanousd=wasted)


def _wrong_cost(row: Row[Any]) -> str | None:
    attempt = Attempt(outcome=row.outcome, **{name: getattr(row, name) for name in PRICED})
    again = cost_nanousd(attempt), bought_nanousd(attempt)
    if again == (row.cost_nanousd, row.bought_nanousd):
        return None
    return f"{row.rid} attempt {row.n}: costs {row.cost_nanousd}, comes to {again[0]} again"
