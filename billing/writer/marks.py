"""Statements on how far the ledger has read."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, func, select

from billing.db.columns import table_of
from billing.db.insert import replace_in
from billing.writer.tables import Watermark

WATERMARK = table_of(Watermark)
COLUMNS = ("shard", "entry", "caught_up_us")


def advance(conn: Connection, newest: Mapping[int, str]) -> None:
    """Remember the last committed stream entry of each shard. An entry that is tried again is
    booked later than its successors, and takes no mark back."""
    marks = entries(conn)
    rows = [
        (shard, entry, 0)
        for shard, entry in sorted(newest.items())
        if order_of(entry) > order_of(marks.get(shard, "0-0"))
    ]
    replace_in(conn, WATERMARK, COLUMNS, rows, ("entry",))


def order_of(entry: str) -> tuple[int, int]:
    """Stream ids compare as two numbers, not as text."""
    time_ms, _, sequence = entry.partition("-")
    return int(time_ms), int(sequence or 0)


def caught_up(conn: Connection, shards: int, at_us: int) -> None:
    """Remember that every entry that any stream had before an instant is booked."""
    rows = [(shard, "0-0", at_us) for shard in range(shards)]
    replace_in(conn, WATERMARK, COLUMNS, rows, ("caught_up_us",))


def caught_up_us(conn: Connection, shards: int) -> int:
    """The instant before which every shard is known to be booked; 0 if there was none yet."""
    statement = select(func.count(), func.min(WATERMARK.c.caught_up_us))
    count, oldest = conn.execute(statement).one()
    return int(oldest) if count >= shards else 0


def entries(conn: Connection) -> dict[int, str]:
    """The last committed stream entry of each shard."""
    rows = conn.execute(select(WATERMARK.c.shard, WATERMARK.c.entry))
    return {shard: entry for shard, entry in rows}
