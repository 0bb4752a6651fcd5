"""Statements on how far the ledger has read, and on what it could not book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select

from billing.store.insert import Row, insert_new, insert_or_replace
from billing.tables import DeadLetter, Watermark, table_of

WATERMARK = table_of(Watermark)
LETTER = table_of(DeadLetter)


def advance(conn: Connection, entries: Mapping[int, str], now_us: int) -> None:
    """Remember the last committed stream entry of each shard."""
    rows = [
        {"shard": shard, "entry": entry, "committed_us": now_us}
        for shard, entry in sorted(entries.items())
    ]
    insert_or_replace(conn, WATERMARK, rows, ["entry", "committed_us"])


def watermarks(conn: Connection) -> dict[int, str]:
    rows = conn.execute(select(WATERMARK.c.shard, WATERMARK.c.entry))
    return {shard: entry for shard, entry in rows}


def insert_letters(conn: Connection, rows: Sequence[Row]) -> None:
    insert_new(conn, LETTER, rows)


def letters(conn: Connection) -> list[dict[str, Any]]:
    return [dict(row) for row in conn.execute(select(LETTER).order_by(LETTER.c.id)).mappings()]
