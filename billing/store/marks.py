"""Statements on how far the ledger has read."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from billing.store.insert import insert_or_replace
from billing.tables import Watermark, table_of

WATERMARK = table_of(Watermark)


def advance(conn: Connection, entries: Mapping[int, str]) -> None:
    """Remember the last committed stream entry of each shard."""
    rows = [
        {"shard": shard, "entry": entry, "caught_up_us": 0}
        for shard, entry in sorted(entries.items())
    ]
    insert_or_replace(conn, WATERMARK, rows, ["entry"])


def caught_up(conn: Connection, shards: int, at_us: int) -> None:
    """Remember that what stood in any stream before an instant is booked."""
    rows = [{"shard": shard, "entry": "0-0", "caught_up_us": at_us} for shard in range(shards)]
    insert_or_replace(conn, WATERMARK, rows, ["caught_up_us"])


def caught_up_us(conn: Connection, shards: int) -> int:
    """The instant before which every shard is known to be booked; 0 if it was never so."""
    statement = select(func.count(), func.min(WATERMARK.c.caught_up_us))
    counted, oldest = conn.execute(statement).one()
    return int(oldest) if counted >= shards else 0


def entries(conn: Connection) -> dict[int, str]:
    """The last committed stream entry of each shard."""
    rows = conn.execute(select(WATERMARK.c.shard, WATERMARK.c.entry))
    return {shard: entry for shard, entry in rows}
