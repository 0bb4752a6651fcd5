"""Statements on which call ran under which `Idempotency-Key`."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select

from billing.db.columns import table_of
from billing.db.insert import Row, insert_new
from billing.usage.tables import IdempotentCall

CALL = table_of(IdempotentCall)


def add(conn: Connection, rows: Sequence[Row]) -> None:
    """Write down the keys of calls. A correction of a call adds nothing to them."""
    insert_new(conn, CALL, rows)


def ended_under(conn: Connection, api_key: str, digest: str, since_us: int) -> list[str]:
    """Request ids of calls under a key that ended since an instant, the newest first."""
    statement = (
        select(CALL.c.rid)
        .where(CALL.c.api_key == api_key, CALL.c.digest == digest, CALL.c.ended_us >= since_us)
        .order_by(CALL.c.ended_us.desc())
    )
    return list(conn.execute(statement).scalars())
