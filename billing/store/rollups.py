"""Statements that keep the hourly and daily sums; what asks for them stands in `sums`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Table, delete, select

from billing.rollup import (
    COUNTS,
    DAY_CELL,
    DIMENSIONS,
    HOUR_CELL,
    ORG_DAY_CELL,
    SUMMED,
    Added,
    Standing,
    by_day,
    by_org_day,
    hour_of,
)
from billing.store.insert import add_to
from billing.store.usage import CORRECTION, EVENT
from billing.tables import UsageDay, UsageHour, UsageOrgDay, table_of

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
    """A cell that counts no call any more goes."""
    rows = [(*cell, *counts) for cell, counts in added.items()]
    add_to(conn, table, (*key, *SUMMED), rows, SUMMED)
    for cell in (cell for cell, counts in added.items() if counts[0] < 0):
        same = (table.c[name] == value for name, value in zip(key, cell, strict=True))
        conn.execute(delete(table).where(*same, table.c.requests == 0))


def standing(conn: Connection, rids: Sequence[str]) -> dict[str, Standing]:
    """What counts of these calls so far; those unknown are absent."""
    if not rids:
        return {}
    columns = ("rid", *DIMENSIONS, *COUNTS)
    events = select(*(EVENT.c[name] for name in columns), EVENT.c.ended_us)
    found = {
        row["rid"]: Standing(hour_of(row["ended_us"]), dict(row))
        for row in conn.execute(events.where(EVENT.c.rid.in_(rids))).mappings()
    }
    better = select(*(CORRECTION.c[name] for name in columns)).order_by(CORRECTION.c.n)
    for row in conn.execute(better.where(CORRECTION.c.rid.in_(list(found)))).mappings():
        found[row["rid"]] = found[row["rid"]]._replace(usage=dict(row))
    return found
