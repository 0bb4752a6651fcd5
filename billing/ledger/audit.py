"""Statements that look for broken laws of accounts, holds and invoices.

Each returns the offending rows, at most a few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    String,
    case,
    cast,
    func,
    literal,
    literal_column,
    select,
    union_all,
)

from billing.db.first_rows import first_rows
from billing.invoices.store import INVOICE, LINE, NOTE, OF_TERMS, TAX, TAX_SHARE, VOID
from billing.ledger.store import ACCOUNT, TRANSFER
from billing.recovery.holds import HOLD
from billing.top_ups.store import TOP_UP
from billing.usage.store import EVENT


def count(conn: Connection, name: str) -> int:
    tables = {
        "transfer": TRANSFER,
        "account": ACCOUNT,
        "open_hold": HOLD,
        "invoice": INVOICE,
    }
    return int(conn.execute(select(func.count()).select_from(tables[name])).scalar_one())


def totals(conn: Connection) -> tuple[int, int]:
    """Debits and credits over all accounts."""
    both = (
        select(func.coalesce(func.sum(ACCOUNT.c.debits), 0)),
        select(func.coalesce(func.sum(ACCOUNT.c.credits), 0)),
    )
    debits, credits = (int(conn.execute(one).scalar_one()) for one in both)
    return debits, credits


def moved(conn: Connection) -> list[tuple[str, str, int, int]]:
    """(account, currency, debits, credits) by all transfers."""
    nothing: ColumnElement[int] = literal_column("0")
    amount = TRANSFER.c.amount_nanousd
    debits = select(
        TRANSFER.c.debit_account.label("code"),
        TRANSFER.c.currency,
        func.sum(amount).label("debits"),
        nothing.label("credits"),
    ).group_by(TRANSFER.c.debit_account, TRANSFER.c.currency)
    credits = select(
        TRANSFER.c.credit_account, TRANSFER.c.currency, nothing, func.sum(amount)
    ).group_by(TRANSFER.c.credit_account, TRANSFER.c.currency)
    both = union_all(debits, credits).subquery("both")
    by = (both.c.code, both.c.currency)
    statement = select(*by, func.sum(both.c.debits), func.sum(both.c.credits)).group_by(*by)
    return [
        (code, currency, int(debited), int(credited))
        for code, currency, debited, credited in conn.execute(statement)
    ]


def moved_in(conn: Connection, code: str, currency: str) -> str:
    """The id of one transfer of an account in a currency."""
    of_account = (TRANSFER.c.debit_account == code) | (TRANSFER.c.credit_account == code)
    statement = select(TRANSFER.c.transfer_id).where(of_account, TRANSFER.c.currency == currency)
    return str(conn.execute(statement.limit(1)).scalar_one())


def holds_of_booked_calls(conn: Connection) -> list[str]:
    statement = select(HOLD.c.rid).join(EVENT, EVENT.c.rid == HOLD.c.rid)
    return [row[0] for row in first_rows(conn, statement)]


def invoice_sums(conn: Connection) -> list[dict[str, Any]]:
    """Each invoice with the sum of its lines, and of those that are no rounding."""
    billed = case((LINE.c.kind != "rounding", LINE.c.amount_nanousd), else_=0)
    by_line = (
        select(
            LINE.c.invoice_id,
            func.sum(LINE.c.amount_nanousd).label("lines"),
            func.sum(billed).label("billed"),
        )
        .group_by(LINE.c.invoice_id)
        .subquery()
    )
    joined = INVOICE.outerjoin(by_line, by_line.c.invoice_id == INVOICE.c.invoice_id)
    rows = conn.execute(
        select(INVOICE, by_line.c.lines, by_line.c.billed)
        .select_from(joined)
        .order_by(INVOICE.c.series, INVOICE.c.number)
    )
    return [dict(row) for row in rows.mappings()]


def numbers_of_others(conn: Connection) -> list[tuple[str, int]]:
    """(series, number) of every credit note and receipt."""
    both = union_all(*(select(each.c.series, each.c.number) for each in (NOTE, TOP_UP)))
    return [(series, number) for series, number in conn.execute(both.order_by("series", "number"))]


def invoice_taxes(conn: Connection) -> list[dict[str, Any]]:
    """Each tax of an invoice with what its lines sum to, what the ledger has booked of it, the tax
    that the invoice says and the one that all of its taxes sum to."""
    of_line = (LINE.c.invoice_id == TAX.c.invoice_id) & (LINE.c.tax_place == TAX.c.place)
    taxed = select(func.sum(LINE.c.amount_nanousd)).where(of_line).scalar_subquery()
    named = TAX.c.invoice_id + ":tax:" + cast(TAX.c.place, String)
    other = TAX.alias("other")
    of_taxes = (
        select(func.sum(other.c.tax_cents))
        .where(other.c.invoice_id == TAX.c.invoice_id)
        .scalar_subquery()
    )
    statement = (
        select(
            TAX,
            taxed.label("taxed"),
            _booked(named, TAX.c.account).label("booked"),
            INVOICE.c.tax_cents.label("of_invoice"),
            of_taxes.label("of_taxes"),
        )
        .join(INVOICE, INVOICE.c.invoice_id == TAX.c.invoice_id)
        .order_by(TAX.c.invoice_id, TAX.c.place)
    )
    return [dict(row) for row in conn.execute(statement).mappings()]


def invoice_tax_shares(conn: Connection) -> list[dict[str, Any]]:
    """What each jurisdiction has of a tax of an invoice, and what the ledger has booked of it."""
    place = cast(TAX_SHARE.c.place, String) + ":" + cast(TAX_SHARE.c.share, String)
    named = TAX_SHARE.c.invoice_id + ":tax:" + place
    statement = select(TAX_SHARE, _booked(named, TAX_SHARE.c.account).label("booked"))
    order = (TAX_SHARE.c.invoice_id, TAX_SHARE.c.place, TAX_SHARE.c.share)
    return [dict(row) for row in conn.execute(statement.order_by(*order)).mappings()]


def _booked(named: ColumnElement[str], account: ColumnElement[str]) -> ColumnElement[Any]:
    """What a transfer has moved to an account; below zero what it took from it."""
    sides = (TRANSFER.c.credit_account, 1), (TRANSFER.c.debit_account, -1)
    amounts = (
        select(func.coalesce(func.sum(TRANSFER.c.amount_nanousd), 0))
        .where(TRANSFER.c.transfer_id == named, side == account)
        .scalar_subquery()
        * sign
        for side, sign in sides
    )
    return sum(amounts, start=literal(0))


def term_lines(conn: Connection) -> list[dict[str, Any]]:
    """The lines of terms of all numbered invoices, each with its organization, and with `voided_us`
    of a void one."""
    joined = LINE.join(INVOICE, INVOICE.c.invoice_id == LINE.c.invoice_id).outerjoin(
        VOID, VOID.c.invoice_id == INVOICE.c.invoice_id
    )
    statement = select(LINE, INVOICE.c.org, VOID.c.voided_us).select_from(joined)
    where = (LINE.c.kind.in_(OF_TERMS), INVOICE.c.number.is_not(None))
    return [dict(row) for row in conn.execute(statement.where(*where)).mappings()]


def of_kinds(conn: Connection, kinds: Sequence[str]) -> list[dict[str, Any]]:
    rows = conn.execute(select(TRANSFER).where(TRANSFER.c.kind.in_(kinds))).mappings()
    return [dict(row) for row in rows]
