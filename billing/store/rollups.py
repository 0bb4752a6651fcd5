"""Statements that keep the hourly sums; what asks for them stands in `sums`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, select

from billing.rollup import CELL, COUNTS, DIMENSIONS, SUMMED, Cell, Standing, hour_of
from billing.store.insert import add_to
from billing.store.usage import CORRECTION, EVENT
from billing.tables import UsageHour, table_of

HOUR = table_of(UsageHour)


def add(conn: Connection, added: Mapping[Cell, tuple[int, ...]]) -> None:
    """Add to the sums of each cell; a cell that counts no call any more goes."""
    add_to(conn, HOUR, [(*cell, *counts) for cell, counts in added.items()], SUMMED)
    for cell in (cell for cell, counts in added.items() if counts[0] < 0):
        same = (HOUR.c[name] == value for name, value in zip(CELL, cell, strict=True))
        conn.execute(delete(HOUR).where(*same, HOUR.c.requests == 0))


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
