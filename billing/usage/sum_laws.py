"""Laws of the sums: hours are sums over the best records, days are sums of hours.

The sums are checked a day at a time, each in a short snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from billing.db.engine import Store
from billing.ledger.report import Check, Progress, judged
from billing.usage import sum_audit
from billing.usage.rollup import DAY_US, SUMMED

MICROSECONDS = 1_000_000


LAWS = (
    (
        "I9 usage_hours",
        "the sums of every hour are the sums over the best records of its calls",
        sum_audit.wrong_hours,
        "%Y-%m-%dT%HZ",
    ),
    (
        "I9 usage_days",
        "the sums of every day are the sums of its hours",
        sum_audit.wrong_days,
        "%Y-%m-%dZ",
    ),
    (
        "I9 usage_org_days",
        "the sums of every day of an organization are the sums of its days",
        sum_audit.wrong_org_days,
        "%Y-%m-%dZ",
    ),
)
"""Each with its statement, which is asked for a day, and how an instant of it is written."""


def sums_recompute(store: Store, progress: Progress) -> list[Check]:
    """Check every hour and every day that has calls or sums of calls."""
    breaks: list[list[str]] = [[] for _ in LAWS]
    count = 0
    for day_us in _days(store):
        progress(f"sums of {_day(day_us)}", count, 0)
        count += 1
        with store.read() as conn:
            for lines, (_, _, look, form) in zip(breaks, LAWS, strict=True):
                wrong = () if lines else look(conn, day_us, day_us + DAY_US)
                lines += [_named(one, form) for one in wrong]
    return [
        judged(name, law, lines, count) for (name, law, *_), lines in zip(LAWS, breaks, strict=True)
    ]


def _days(store: Store) -> Iterator[int]:
    """The first instant of each day that has calls or sums, in order."""
    from_us = 0
    while True:
        with store.read() as conn:
            day_us = sum_audit.next_day(conn, from_us)
        if day_us is None:
            return
        yield day_us
        from_us = day_us + DAY_US


def _named(wrong: tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]], form: str) -> str:
    cell, stands, real = wrong
    at = datetime.fromtimestamp(cell[0] // MICROSECONDS, UTC)
    differing = (
        f"{name} stands at {actual}, should be {due}"
        for name, actual, due in zip(SUMMED, stands, real, strict=True)
        if actual != due
    )
    return f"{at:{form}} {' '.join(map(str, cell[1:]))}: {', '.join(differing)}"


def _day(day_us: int) -> str:
    return f"{datetime.fromtimestamp(day_us // MICROSECONDS, UTC):%Y-%m-%d}"
