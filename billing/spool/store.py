"""Statements on confirmed spool segments."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from billing.db.columns import table_of
from billing.db.insert import Row, insert_new
from billing.spool.tables import SpoolSegment

SEGMENT = table_of(SpoolSegment)


def insert_segment(conn: Connection, row: Row) -> None:
    insert_new(conn, SEGMENT, [row])


def confirmed(conn: Connection) -> dict[tuple[str, int], dict[str, Any]]:
    """The confirmed segments, by gateway and number."""
    rows = conn.execute(select(SEGMENT)).mappings()
    return {(row["gateway"], row["seq"]): dict(row) for row in rows}
