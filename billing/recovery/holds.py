"""Statements on holds that were still open when the writer read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select

from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import Row, insert_new
from billing.recovery.tables import OpenHold

HOLD = table_of(OpenHold)


def insert_open(conn: Connection, rows: Sequence[Row]) -> None:
    insert_new(conn, HOLD, rows)


def delete_open(conn: Connection, rids: Sequence[str]) -> None:
    if rids:
        conn.execute(delete(HOLD).where(in_list(conn, HOLD.c.rid, rids)))


def admitted_before(conn: Connection, before_us: int, limit: int) -> list[dict[str, Any]]:
    """The oldest open holds, the longest open first."""
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


def open_under(conn: Connection, api_key: str, digest: str) -> str | None:
    """The call that is open under this `Idempotency-Key`."""
    query = select(HOLD.c.rid).where(HOLD.c.key == api_key, HOLD.c.idempotency == digest)
    return conn.execute(query.limit(1)).scalar_one_or_none()


def open_of(conn: Connection, rid: str) -> dict[str, Any] | None:
    row = conn.execute(select(HOLD).where(HOLD.c.rid == rid)).mappings().first()
    return dict(row) if row else None
