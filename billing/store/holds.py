"""Statements on holds that were still open when the writer read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select

from billing.store.among import among
from billing.store.insert import Row, insert_new
from billing.tables import OpenHold, table_of

HOLD = table_of(OpenHold)


def insert_open(conn: Connection, rows: Sequence[Row]) -> None:
    insert_new(conn, HOLD, rows)


def delete_open(conn: Connection, rids: Sequence[str]) -> None:
    if rids:
        conn.execute(delete(HOLD).where(among(conn, HOLD.c.rid, rids)))


def admitted_before(conn: Connection, before_us: int, limit: int) -> list[dict[str, Any]]:
    """The oldest open holds, first the longest open."""
    rows = conn.execute(
        select(HOLD).where(HOLD.c.admitted_us < before_us).order_by(HOLD.c.admitted_us).limit(limit)
    )
    return [dict(row) for row in rows.mappings()]


def count_before(conn: Connection, before_us: int, org: str) -> int:
    """How many calls of an organization, admitted before an instant, are still open."""
    statement = select(func.count()).where(HOLD.c.org == org, HOLD.c.admitted_us < before_us)
    return int(conn.execute(statement).scalar_one())


def known_open(conn: Connection, rids: Sequence[str]) -> set[str]:
    return set(conn.execute(select(HOLD.c.rid).where(HOLD.c.rid.in_(rids))).scalars())


def open_of(conn: Connection, rid: str) -> dict[str, Any] | None:
    row = conn.execute(select(HOLD).where(HOLD.c.rid == rid)).mappings().first()
    return dict(row) if row else None
