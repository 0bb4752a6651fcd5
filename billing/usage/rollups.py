"""Statements that write the hourly and daily sums. The statements that read them are in `sums`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Table, delete, select

from billing.db.columns import table_of
from billing.db.insert import add_to
from billing.usage.rollup import (
    COUNTS,
    DAY_CELL,
    DIMENSIONS,
    HOUR_CELL,
    ORG_DAY_CELL,
    SUMMED,
    Added,
    CountedCall,
    by_day,
    by_org_day,
    hour_of,
)
from billing.usage.store import CORRECTION, EVENT
from billing.usage.tables import UsageDay, UsageHour, UsageOrgDay

HOUR = table_of(UsageHour)
DAY = table_of(UsageDay)
ORG_DAY = table_of(UsageOrgDay)


def add(conn: Connection, added: Added) -> None:
    """Add to the sums of each hour and of its days."""
    days = by_day(added)
    _add(conn, HOUR, HOUR_CELL, added)
    _add(conn, DAY, DAY_CELL, days)
    _add(conn, ORG_DAY, ORG_DAY_CELL, by_org_day(days))


def _add(conn: Connection, table: Table, key: Sequence[str], added: Added) -> None:
    """Add to the sums of one table. A cell that counts no call any more is deleted."""
    rows = [(*cell, *counts) for cell, counts in added.items()]
    add_to(conn, table, (*key, *SUMMED), rows, SUMMED)
    for cell in (cell for cell, counts in added.items() if counts[0] < 0):
        same = (table.c[name] == value for name, value in zip(key, cell, strict=True))
        conn.execute(delete(table).where(*same, table.c.requests == 0))


def standing(conn: Connection, rids: Sequence[str]) -> dict[str, CountedCall]:
    """What these calls count so far. An unknown call is absent."""
    if not rids:
        return {}
    columns = ("rid", *DIMENSIONS, *COUNTS, "price_version", "is_simulated", "unit")
    events = select(*(EVENT.c[name] for name in columns), EVENT.c.ended_us)
    calls = {
        row["rid"]: CountedCall(hour_of(row["ended_us"]), dict(row))
        for row in conn.execute(events.where(EVENT.c.rid.in_(rids))).mappings()
    }
    better = select(*(CORRECTION.c[name] for name in columns)).order_by(CORRECTION.c.n)
    for row in conn.execute(better.where(CORRECTION.c.rid.in_(list(calls)))).mappings():
        calls[row["rid"]] = calls[row["rid"]]._replace(usage=dict(row))
    return calls
