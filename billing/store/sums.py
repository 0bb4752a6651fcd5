"""Sums over usage: what each scope has spent, and summaries for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Subquery, func, literal_column, select

from billing.store.usage import current

HOUR_US = 3_600_000_000
BUCKETS_US = {"day": 24 * HOUR_US, "hour": HOUR_US}
SUMMED = ("input", "cached_input", "output", "amount_nanousd")


@dataclass(frozen=True, slots=True)
class SpentRow:
    """Nano-USD charged to one key in one UTC month of admission."""

    org: str
    project: str
    key: str
    month: str
    amount_nanousd: int


def spent(conn: Connection, org: str | None = None) -> list[SpentRow]:
    """Everything ever charged, net of corrections."""
    usage = current()
    by = (usage.c.org, usage.c.project, usage.c.key, usage.c.month)
    statement = (
        select(*by, func.sum(usage.c.amount_nanousd))
        .where(usage.c.amount_nanousd > 0)
        .group_by(*by)
    )
    if org is not None:
        statement = statement.where(usage.c.org == org)
    return [
        SpentRow(org_id, project, key, month, int(amount))
        for org_id, project, key, month, amount in conn.execute(statement)
    ]


def summary(
    conn: Connection, org: str | None, from_us: int, to_us: int, group_by: Sequence[str]
) -> list[tuple[dict[str, Any], int, int, int, int, int]]:
    """(group, requests, input, cached input, output, nano-USD) of calls ended in [from, to)."""
    usage = current()
    by = [_dimension(usage, name).label(f"by_{name}") for name in group_by]
    statement = (
        select(*by, func.count(), *(func.coalesce(func.sum(usage.c[c]), 0) for c in SUMMED))
        .where(usage.c.ended_us >= from_us, usage.c.ended_us < to_us)
        .group_by(*by)
        .order_by(*by)
    )
    if org is not None:
        statement = statement.where(usage.c.org == org)
    found = []
    for row in conn.execute(statement):
        group = dict(zip(group_by, row, strict=False))
        counted, tokens_in, cached, out, amount = (int(value) for value in row[len(by) :])
        found.append((group, counted, tokens_in, cached, out, amount))
    return found


def _dimension(usage: Subquery, name: str) -> ColumnElement[Any]:
    """A width is written out: PostgreSQL groups by equal text, not by equal parameters."""
    if width_us := BUCKETS_US.get(name):
        width: ColumnElement[int] = literal_column(str(width_us))
        return usage.c.ended_us - usage.c.ended_us % width
    return usage.c[name]
