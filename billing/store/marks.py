"""Statements on how far the ledger has read."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from billing.store.insert import replace_in
from billing.tables import Watermark, table_of

WATERMARK = table_of(Watermark)
COLUMNS = ("shard", "entry", "caught_up_us")


def advance(conn: Connection, entries: Mapping[int, str]) -> None:
    """Remember the last committed stream entry of each shard."""
    rows = [(shard, entry, 0) for shard, entry in sorted(entries.items())]
    replace_in(conn, WATERMARK, COLUMNS, rows, ("entry",))


def caught_up(conn: Connection, shards: int, at_us: int) -> None:
    """Remember that what stood in any stream before an instant is booked."""
    rows = [(shard, "0-0", at_us) for shard in range(shards)]
    replace_in(conn, WATERMARK, COLUMNS, rows, ("caught_up_us",))


def caught_up_us(conn: Connection, shards: int) -> int:
    """The instant before which every shard is known to be booked; 0 if it was never so."""
    statement = select(func.count(), func.min(WATERMARK.c.caught_up_us))
    counted, oldest = conn.execute(statement).one()
    return int(oldest) if counted >= shards else 0


def entries(conn: Connection) -> dict[int, str]:
    """The last committed stream entry of each shard."""
    rows = conn.execute(select(WATERMARK.c.shard, WATERMARK.c.entry))
    return {shard: entry for shard, entry in rows}
