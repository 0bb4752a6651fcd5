"""Law of the hourly sums: they are the sums over the best records, hour by hour."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from billing.checks.report import Check, judged
from billing.rollup import SUMMED
from billing.store import audit

MICROSECONDS = 1_000_000


def hours_recompute(conn: Connection) -> Check:
    breaks = [_named(*row) for row in audit.wrong_hours(conn)]
    return judged(
        "I9 usage_hours",
        "the sums of every hour are the sums over the best records of its calls",
        breaks,
        audit.count(conn, "usage_hour"),
    )


def _named(cell: tuple[Any, ...], stands: tuple[int, ...], real: tuple[int, ...]) -> str:
    at = datetime.fromtimestamp(cell[0] // MICROSECONDS, UTC)
    differing = (
        f"{name} stands at {stood}, the records give {given}"
        for name, stood, given in zip(SUMMED, stands, real, strict=True)
        if stood != given
    )
    return f"{at:%Y-%m-%dT%HZ} {' '.join(map(str, cell[1:]))}: {', '.join(differing)}"
