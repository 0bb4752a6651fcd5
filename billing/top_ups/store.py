"""Statements on top-ups and what was given back of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select, tuple_

from billing.db.columns import table_of
from billing.top_ups.tables import TopUp, TopUpRefund

TOP_UP = table_of(TopUp)
REFUND = table_of(TopUpRefund)
ID_PREFIX = "top_"

Row = dict[str, Any]


def receipts_of(series: str, year: str) -> str:
    """`SLU-RC-2026`, within which the numbers of receipts run without a gap."""
    return f"{series}-RC-{year}"


def id_of(payment_id: str) -> str:
    """The id of the top-up whose money would have this id as a payment. So one external id of an
    organization is one payment or one top-up."""
    return f"{ID_PREFIX}{payment_id.removeprefix('pay_')}"


def by_id(conn: Connection, top_up_id: str) -> Row | None:
    row = conn.execute(select(TOP_UP).where(TOP_UP.c.top_up_id == top_up_id)).mappings().first()
    return dict(row) if row else None


def find(
    conn: Connection,
    *,
    org: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[Row]:
    """The oldest first, from the one behind an instant and an id."""
    order = TOP_UP.c.created_us, TOP_UP.c.top_up_id
    statement = select(TOP_UP).order_by(*order).limit(limit)
    if org is not None:
        statement = statement.where(TOP_UP.c.org == org)
    if after is not None:
        statement = statement.where(tuple_(*order) > after)
    return [dict(row) for row in conn.execute(statement).mappings()]


def insert_top_up(conn: Connection, row: Row) -> None:
    conn.execute(insert(TOP_UP), [row])


def refunds(conn: Connection, top_up_id: str) -> list[Row]:
    statement = select(REFUND).where(REFUND.c.top_up_id == top_up_id).order_by(REFUND.c.n)
    return [dict(row) for row in conn.execute(statement).mappings()]


def insert_refund(conn: Connection, row: Row) -> None:
    conn.execute(insert(REFUND), [row])
