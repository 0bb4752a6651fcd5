"""Laws of the sums: hours are sums over the best records, days are sums of hours."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from billing.checks.report import Check, judged
from billing.rollup import SUMMED
from billing.store import audit

MICROSECONDS = 1_000_000


def hours_recompute(conn: Connection) -> Check:
    return judged(
        "I9 usage_hours",
        "the sums of every hour are the sums over the best records of its calls",
        [_named(wrong, "%Y-%m-%dT%HZ") for wrong in audit.wrong_hours(conn)],
        audit.count(conn, "usage_hour"),
    )


def days_recompute(conn: Connection) -> Check:
    return judged(
        "I9 usage_days",
        "the sums of every day are the sums of its hours",
        [_named(wrong, "%Y-%m-%dZ") for wrong in audit.wrong_days(conn)],
        audit.count(conn, "usage_day"),
    )


def _named(wrong: tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]], form: str) -> str:
    cell, stands, real = wrong
    at = datetime.fromtimestamp(cell[0] // MICROSECONDS, UTC)
    differing = (
        f"{name} stands at {stood}, should be {given}"
        for name, stood, given in zip(SUMMED, stands, real, strict=True)
        if stood != given
    )
    return f"{at:{form}} {' '.join(map(str, cell[1:]))}: {', '.join(differing)}"
