"""A log of a million calls: what people look at costs the same as with a handful.

Work is counted in steps of SQLite's machine, in thousands, not by a clock: to look at a row of the
log takes some dozens of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from billing.db.engine import Store
from billing.ledger.store import TRANSFER
from billing.queries import (
    GroupBy,
    busy_until,
    call_by_rid,
    moves,
    newest_calls,
    recent_decided,
    recent_transfers,
    spent_by_scopes,
    timings,
    usage_summary,
)
from billing.usage.rollup import COUNTS, DAY_CELL, DAY_US, HOUR_CELL, HOUR_US, ORG_DAY_CELL, SUMMED
from billing.usage.rollups import DAY, HOUR, ORG_DAY
from billing.usage.store import EVENT, CallFilter
from tests.billing.calls import ADMITTED_US

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

CALLS, ORGS = 1_000_000, 100
FROM_US = ADMITTED_US // DAY_US * DAY_US
STEP_US = 30 * DAY_US // CALLS
TO_US = FROM_US + 30 * DAY_US
NUMBERS = f"WITH RECURSIVE one(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM one LIMIT {CALLS})"
RID = "printf('req_%032x', n)"
OF_CALL = {
    "rid": RID,
    "org": f"'org_' || (n % {ORGS})",
    "project": f"'proj_' || (n % {ORGS})",
    "key": f"'key_' || (n % {2 * ORGS})",
    "ended_us": f"{FROM_US} + n * {STEP_US}",
    "source": "'exact'",
    "status": "'answered'",
    "month": "'202609'",
    "batch": "0",
    "payload_sha": "randomblob(32)",
    "first_token_us": "NULL",
}
OF_TRANSFER = {
    "transfer_id": f"{RID} || ':charge:1'",
    "kind": "'charge'",
    "debit_account": "'a'",
    "credit_account": "'b'",
    "currency": "'USD'",
    "reverses_id": "NULL",
    "booked_us": OF_CALL["ended_us"],
}
STEPS_MAX = 1_500
"""Of any one question. A look through the log takes more than 10,000 of them."""


@pytest.fixture
def full(sqlite_store: Store) -> Store:
    with sqlite_store.write() as conn:
        conn.exec_driver_sql("INSERT INTO account VALUES ('a', NULL, 'USD', 0, 0)")
        conn.exec_driver_sql("INSERT INTO account VALUES ('b', NULL, 'USD', 0, 0)")
        for table, given in ((EVENT, OF_CALL), (TRANSFER, OF_CALL | OF_TRANSFER)):
            names = table.columns.keys()
            values = ", ".join(given.get(name, "1") for name in names)
            conn.exec_driver_sql(
                f"INSERT INTO {table.name} ({', '.join(names)}) {NUMBERS} SELECT {values} FROM one"
            )
        hour, day = (f"ended_us - ended_us % {width}" for width in (HOUR_US, DAY_US))
        sums_of = ((HOUR, HOUR_CELL, hour), (DAY, DAY_CELL, day), (ORG_DAY, ORG_DAY_CELL, day))
        for table, cell, at in sums_of:
            names, sums = ", ".join(cell[1:]), ", ".join(f"sum({name})" for name in COUNTS)
            conn.exec_driver_sql(
                f"INSERT INTO {table.name} ({', '.join((*cell, *SUMMED))}) SELECT {at}, {names}, "
                f"count(*), {sums} FROM usage_event GROUP BY {at}, {names}"
            )
    return sqlite_store


def questions(store: Store) -> dict[str, Callable[[], object]]:
    last_hour_us = TO_US - HOUR_US
    inside = FROM_US + HOUR_US // 2, TO_US - HOUR_US // 2
    by_day = [GroupBy.DAY, GroupBy.MODEL, GroupBy.KEY]
    return {
        "a tenant's month by day, model and key": lambda: usage_summary(
            store, "org_7", FROM_US, TO_US, by_day
        ),
        "a tenant's month by the hour": lambda: usage_summary(
            store, "org_7", FROM_US, TO_US, [GroupBy.HOUR]
        ),
        "a tenant's month from inside an hour on": lambda: usage_summary(
            store, "org_7", *inside, by_day
        ),
        "everybody's month by organization": lambda: usage_summary(
            store, None, FROM_US, TO_US, [GroupBy.ORG]
        ),
        "everybody's month, both ends inside an hour": lambda: usage_summary(
            store, None, *inside, [GroupBy.ORG]
        ),
        "what every scope has spent": lambda: spent_by_scopes(store),
        "how far a page of minutes goes": lambda: busy_until(
            store, "org_7", FROM_US, TO_US, 20_000
        ),
        "an hour of a tenant by the minute": lambda: usage_summary(
            store, "org_7", last_hour_us, TO_US, [GroupBy.MINUTE]
        ),
        "recent calls with their decisions": lambda: recent_decided(store, 25),
        "recent calls of a tenant": lambda: newest_calls(store, 25, CallFilter("org_7")),
        "moves of an hour": lambda: moves(store, last_hour_us, TO_US, 50),
        "timings of an hour": lambda: timings(store, last_hour_us, TO_US, 2000),
        "recent transfers": lambda: recent_transfers(store, 50),
        "recent transfers of a tenant": lambda: recent_transfers(store, 50, "org_7"),
        "one call": lambda: call_by_rid(store, f"req_{7:032x}"),
    }


def test_g46_a_million_calls_are_not_looked_through(full: Store) -> None:
    asked = questions(full)
    (everything,) = usage_summary(full, None, FROM_US, TO_US)
    assert everything.requests == CALLS
    steps = {}
    for name, ask in asked.items():
        with counted(full) as thousands:
            assert ask()
        steps[name] = thousands[0]
    assert not {name: n for name, n in steps.items() if n > STEPS_MAX}, steps


@contextmanager
def counted(store: Store) -> Iterator[list[int]]:
    """Thousands of steps that all connections take meanwhile."""
    thousands = [0]

    def count() -> None:
        thousands[0] += 1

    def begin(driver: Any, *_rest: Any) -> None:
        driver.set_progress_handler(count, 1000)

    event.listen(store.engine, "checkout", begin)
    try:
        yield thousands
    finally:
        event.remove(store.engine, "checkout", begin)
