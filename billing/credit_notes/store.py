"""Statements on credit notes, which are inserted and never change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select, tuple_

from billing.credit_notes.note import CreditedLine, CreditedPart
from billing.credit_notes.tables import (
    CreditNote,
    CreditNoteLine,
    CreditNoteTax,
    CreditNoteTaxShare,
)
from billing.db.columns import table_of
from billing.db.insert import insert_rows
from billing.invoices.store import INVOICE

NOTE = table_of(CreditNote)
LINE = table_of(CreditNoteLine)
TAX = table_of(CreditNoteTax)
TAX_SHARE = table_of(CreditNoteTaxShare)
Row = dict[str, Any]


def insert_note(
    conn: Connection, note: Row, lines: Iterable[CreditedLine], parts: Sequence[CreditedPart]
) -> None:
    conn.execute(insert(NOTE), [note])
    of_note = {"note_id": note["note_id"]}
    rows = [
        of_note
        | {"seq": seq, "line_seq": line.line_seq, "tax_place": line.place}
        | {"quantity": line.quantity, "amount_cents": line.amount_cents}
        for seq, line in enumerate(lines, start=1)
    ]
    insert_rows(conn, LINE, rows)
    taxes = [
        of_note
        | {"tax_place": part.place, "base_cents": part.base_cents, "tax_cents": part.tax_cents}
        for part in parts
    ]
    insert_rows(conn, TAX, taxes)
    shares = [
        of_note | {"tax_place": part.place, "share": share, "tax_cents": cents}
        for part in parts
        if len(part.taxes_cents) > 1
        for share, cents in enumerate(part.taxes_cents, start=1)
    ]
    insert_rows(conn, TAX_SHARE, shares)


def credited(conn: Connection, invoice_id: str) -> dict[int, tuple[int, tuple[int, ...]]]:
    """(base, taxes) in cents that notes have taken of an invoice, by the place of its tax."""
    statement = (
        select(TAX.c.tax_place, func.sum(TAX.c.base_cents), func.sum(TAX.c.tax_cents))
        .join(NOTE, NOTE.c.note_id == TAX.c.note_id)
        .where(NOTE.c.invoice_id == invoice_id)
        .group_by(TAX.c.tax_place)
    )
    by_share = (
        select(TAX_SHARE.c.tax_place, func.sum(TAX_SHARE.c.tax_cents))
        .join(NOTE, NOTE.c.note_id == TAX_SHARE.c.note_id)
        .where(NOTE.c.invoice_id == invoice_id)
        .group_by(TAX_SHARE.c.tax_place, TAX_SHARE.c.share)
        .order_by(TAX_SHARE.c.tax_place, TAX_SHARE.c.share)
    )
    shares: dict[int, tuple[int, ...]] = {}
    for place, cents in conn.execute(by_share):
        shares[place] = (*shares.get(place, ()), int(cents))
    return {
        place: (int(base), shares.get(place, (int(tax),)))
        for place, base, tax in conn.execute(statement)
    }


def credited_of_lines(conn: Connection, invoice_id: str) -> dict[int, int]:
    """Cents that notes have taken of lines of an invoice, by `seq`."""
    statement = (
        select(LINE.c.line_seq, func.sum(LINE.c.amount_cents))
        .join(NOTE, NOTE.c.note_id == LINE.c.note_id)
        .where(NOTE.c.invoice_id == invoice_id)
        .group_by(LINE.c.line_seq)
    )
    return {seq: int(cents) for seq, cents in conn.execute(statement)}


def by_id(conn: Connection, note_id: str) -> Row | None:
    row = conn.execute(select(NOTE).where(NOTE.c.note_id == note_id)).mappings().first()
    return dict(row) if row else None


def lines_of(conn: Connection, note_id: str) -> list[Row]:
    rows = conn.execute(select(LINE).where(LINE.c.note_id == note_id).order_by(LINE.c.seq))
    return [dict(row) for row in rows.mappings()]


def taxes_of(conn: Connection, note_id: str) -> dict[int, tuple[int, ...]]:
    """By the place of the invoice's tax, in cents: one, or one for each jurisdiction."""
    order = (TAX_SHARE.c.tax_place, TAX_SHARE.c.share)
    shares: dict[int, tuple[int, ...]] = {}
    by_share = select(TAX_SHARE).where(TAX_SHARE.c.note_id == note_id).order_by(*order)
    for row in conn.execute(by_share):
        shares[row.tax_place] = (*shares.get(row.tax_place, ()), row.tax_cents)
    rows = conn.execute(select(TAX).where(TAX.c.note_id == note_id).order_by(TAX.c.tax_place))
    return {row.tax_place: shares.get(row.tax_place, (row.tax_cents,)) for row in rows}


def find(
    conn: Connection,
    *,
    org: str | None = None,
    invoice_id: str | None = None,
    month: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[Row]:
    """The oldest first, from the one behind an instant and an id."""
    order = NOTE.c.created_us, NOTE.c.note_id
    statement = select(NOTE).order_by(*order).limit(limit)
    if org is not None:
        statement = statement.where(NOTE.c.org == org)
    if invoice_id is not None:
        statement = statement.where(NOTE.c.invoice_id == invoice_id)
    if month is not None:
        joined = NOTE.join(INVOICE, INVOICE.c.invoice_id == NOTE.c.invoice_id)
        statement = statement.select_from(joined).where(INVOICE.c.period == month)
    if after is not None:
        statement = statement.where(tuple_(*order) > after)
    return [dict(row) for row in conn.execute(statement).mappings()]
