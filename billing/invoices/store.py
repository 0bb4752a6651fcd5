"""Statements on invoices. A draft is deleted and written anew; a finalised one is frozen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, tuple_, update

from billing.db.columns import table_of
from billing.db.insert import Row, insert_new
from billing.invoices.tables import (
    Invoice,
    InvoiceCounter,
    InvoiceLine,
    InvoiceLineTransfer,
    InvoiceTransfer,
)
from billing.ledger import posting
from billing.ledger.store import TRANSFER
from billing.usage.store import CORRECTION, EVENT

INVOICE = table_of(Invoice)
LINE = table_of(InvoiceLine)
ON_INVOICE = table_of(InvoiceTransfer)
LINK = table_of(InvoiceLineTransfer)
COUNTER = table_of(InvoiceCounter)
USAGE_KINDS = ("charge", "reversal")
BILLED_KINDS = (*USAGE_KINDS, "burn")


def orgs_with_usage(conn: Connection, before_us: int) -> list[str]:
    statement = select(TRANSFER.c.org).where(
        TRANSFER.c.kind.in_(USAGE_KINDS), TRANSFER.c.booked_us < before_us
    )
    return sorted(conn.execute(statement.distinct()).scalars())


def unbilled(conn: Connection, org: str, before_us: int, invoice_id: str) -> list[dict[str, Any]]:
    """Every transfer that moves unbilled amounts: charges, what credits have paid of them, and
    reversals of both. Those on another invoice than this draft are left out. The oldest comes
    first."""
    account = posting.unbilled(org)
    on = TRANSFER.outerjoin(ON_INVOICE, ON_INVOICE.c.transfer_id == TRANSFER.c.transfer_id)
    rows = conn.execute(
        select(TRANSFER)
        .select_from(on)
        .where(
            TRANSFER.c.org == org,
            TRANSFER.c.kind.in_(BILLED_KINDS),
            or_(TRANSFER.c.debit_account == account, TRANSFER.c.credit_account == account),
            TRANSFER.c.booked_us < before_us,
            or_(ON_INVOICE.c.invoice_id.is_(None), ON_INVOICE.c.invoice_id == invoice_id),
        )
        .order_by(TRANSFER.c.booked_us, TRANSFER.c.transfer_id)
    )
    return [dict(row) for row in rows.mappings()]


def records(conn: Connection, rids: Sequence[str]) -> dict[tuple[str, int], dict[str, Any]]:
    """Every record of these request ids, by number."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for row in conn.execute(select(EVENT).where(EVENT.c.rid.in_(rids))).mappings():
        rows[row["rid"], 1] = dict(row)
    for row in conn.execute(select(CORRECTION).where(CORRECTION.c.rid.in_(rids))).mappings():
        rows[row["rid"], row["n"]] = dict(row)
    return rows


def finalised_periods(conn: Connection, org: str) -> set[str]:
    statement = select(INVOICE.c.period).where(
        INVOICE.c.org == org, INVOICE.c.status == "finalised"
    )
    return set(conn.execute(statement).scalars())


def find(
    conn: Connection,
    org: str | None,
    period: str | None,
    *,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    statement = select(INVOICE).order_by(INVOICE.c.period, INVOICE.c.org).limit(limit)
    if after is not None:
        statement = statement.where(tuple_(INVOICE.c.period, INVOICE.c.org) > after)
    if org is not None:
        statement = statement.where(INVOICE.c.org == org)
    if period is not None:
        statement = statement.where(INVOICE.c.period == period)
    return [dict(row) for row in conn.execute(statement).mappings()]


def lines(conn: Connection, invoice_id: str) -> list[dict[str, Any]]:
    """The lines of an invoice, with the number of transfers on each."""
    counts = (
        select(LINK.c.seq, func.count().label("transfers"))
        .where(LINK.c.invoice_id == invoice_id)
        .group_by(LINK.c.seq)
        .subquery()
    )
    rows = conn.execute(
        select(LINE, func.coalesce(counts.c.transfers, 0).label("transfers"))
        .select_from(LINE.outerjoin(counts, counts.c.seq == LINE.c.seq))
        .where(LINE.c.invoice_id == invoice_id)
        .order_by(LINE.c.seq)
    )
    return [dict(row) for row in rows.mappings()]


def links(conn: Connection, invoice_id: str, seq: int) -> list[dict[str, Any]]:
    """The transfers behind a line, each with what the line carries of it."""
    rows = conn.execute(
        select(LINK.c.transfer_id, LINK.c.amount_nanousd, TRANSFER.c.rid, TRANSFER.c.kind)
        .join(TRANSFER, TRANSFER.c.transfer_id == LINK.c.transfer_id)
        .where(LINK.c.invoice_id == invoice_id, LINK.c.seq == seq)
        .order_by(LINK.c.transfer_id)
    )
    return [dict(row) for row in rows.mappings()]


def delete_draft(conn: Connection, invoice_id: str) -> None:
    for table in (LINK, ON_INVOICE, LINE, INVOICE):
        conn.execute(delete(table).where(table.c.invoice_id == invoice_id))


def insert_draft(
    conn: Connection,
    invoice: Row,
    line_rows: Sequence[Row],
    transfer_rows: Sequence[Row],
    link_rows: Sequence[Row],
) -> None:
    conn.execute(insert(INVOICE), [invoice])
    for table, rows in ((LINE, line_rows), (ON_INVOICE, transfer_rows), (LINK, link_rows)):
        if rows:
            conn.execute(insert(table), rows)


def finalise(conn: Connection, invoice_id: str, series: str) -> int:
    """Give the draft the next number of its series, and freeze it."""
    insert_new(conn, COUNTER, [{"series": series, "next_number": 1}])
    statement = select(COUNTER.c.next_number).where(COUNTER.c.series == series).with_for_update()
    number = int(conn.execute(statement).scalar_one())
    conn.execute(update(COUNTER).where(COUNTER.c.series == series).values(next_number=number + 1))
    conn.execute(
        update(INVOICE)
        .where(INVOICE.c.invoice_id == invoice_id)
        .values(status="finalised", number=number, series=series)
    )
    return number
