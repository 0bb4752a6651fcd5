"""Statements on how far the ledger has read."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from billing.store.insert import replace_in
from billing.tables import Watermark, table_of

WATERMARK = table_of(Watermark)
COLUMNS = ("shard", "entry", "caught_up_us")


def advance(conn: Connection, newest: Mapping[int, str]) -> None:
    """Remember the last committed stream entry of each shard: what is booked later than entries
    after it, because it was tried again, takes nothing back."""
    known = entries(conn)
    rows = [
        (shard, entry, 0)
        for shard, entry in sorted(newest.items())
        if order_of(entry) > order_of(known.get(shard, "0-0"))
    ]
    replace_in(conn, WATERMARK, COLUMNS, rows, ("entry",))


def order_of(entry: str) -> tuple[int, int]:
    """Stream ids compare as two numbers, not as text."""
    time_ms, _, sequence = entry.partition("-")
    return int(time_ms), int(sequence or 0)


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
