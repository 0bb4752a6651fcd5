"""Statements on payments. A part is written with its transfer, so that both sums are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, tuple_

from billing.currencies.conversion import USD, Conversion
from billing.db.columns import table_of
from billing.ledger import store as transfers
from billing.ledger.posting import CASH, on_account, receivable, transfer
from billing.money import NANOUSD_PER_CENT
from billing.payments.payment import PartKind, Receipt, Source
from billing.payments.tables import Payment, PaymentPart
from billing.payments.tendered import TenderedDue

PAYMENT = table_of(Payment)
PART = table_of(PaymentPart)
LEFT_AGAIN = {PartKind.REFUND: "refund", PartKind.REVERSAL: "payment_reversed"}
IS_CREDIT = PAYMENT.c.source == Source.CREDIT_NOTE.value
_GONE = func.coalesce(func.sum(PART.c.amount_cents), 0)
_CAME = func.coalesce(func.sum(PAYMENT.c.amount_cents), 0)

Row = dict[str, Any]


def by_id(conn: Connection, payment_id: str) -> Row | None:
    row = conn.execute(select(PAYMENT).where(PAYMENT.c.payment_id == payment_id)).mappings().first()
    return dict(row) if row else None


def find(
    conn: Connection,
    *,
    org: str | None = None,
    invoice_id: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[Row]:
    """The oldest first, from the one behind an instant and an id."""
    order = PAYMENT.c.created_us, PAYMENT.c.payment_id
    statement = select(PAYMENT).order_by(*order).limit(limit)
    if org is not None:
        statement = statement.where(PAYMENT.c.org == org)
    if invoice_id is not None:
        took = select(PART.c.payment_id).where(PART.c.invoice_id == invoice_id)
        of_invoice = PAYMENT.c.invoice_id == invoice_id
        statement = statement.where(of_invoice | PAYMENT.c.payment_id.in_(took))
    if after is not None:
        statement = statement.where(tuple_(*order) > after)
    return [dict(row) for row in conn.execute(statement).mappings()]


def parts(conn: Connection, payment_id: str) -> list[Row]:
    statement = select(PART).where(PART.c.payment_id == payment_id).order_by(PART.c.n)
    return [dict(row) for row in conn.execute(statement).mappings()]


def with_credit(conn: Connection, org: str) -> list[tuple[Row, int]]:
    """The payments of an organization that have cents on account, the oldest first."""
    gone = select(_GONE).where(PART.c.payment_id == PAYMENT.c.payment_id)
    left = PAYMENT.c.amount_cents - gone.correlate(PAYMENT).scalar_subquery()
    statement = (
        select(PAYMENT, left.label("left"))
        .where(PAYMENT.c.org == org, left > 0)
        .order_by(PAYMENT.c.received_us, PAYMENT.c.payment_id)
    )
    rows = [dict(row) for row in conn.execute(statement).mappings()]
    return [(row, int(row.pop("left"))) for row in rows]


def paid_of(invoice_id: ColumnElement[str] | str) -> ColumnElement[int]:
    """What an invoice has of payments. One below zero has given its credit instead."""
    took = select(_GONE).where(PART.c.invoice_id == invoice_id)
    gave = select(_CAME).where(PAYMENT.c.invoice_id == invoice_id, IS_CREDIT)
    return (
        took.correlate_except(PART).scalar_subquery()
        - gave.correlate_except(PAYMENT).scalar_subquery()
    )


def paid_cents(conn: Connection, invoice_id: str) -> int:
    return int(conn.execute(select(paid_of(invoice_id))).scalar_one())


def credit_of(conn: Connection, invoice_id: str) -> Row | None:
    """What an invoice below zero has given to the account."""
    given = select(PAYMENT).where(PAYMENT.c.invoice_id == invoice_id, IS_CREDIT)
    row = conn.execute(given).mappings().first()
    return dict(row) if row else None


def taken(conn: Connection, *, invoice_id: str | None = None, payment_id: str | None = None) -> Any:
    """(payment, invoice, cents) that invoices have of payments."""
    names = PART.c.payment_id, PART.c.invoice_id
    total = func.sum(PART.c.amount_cents)
    statement = select(*names, total).where(PART.c.kind == PartKind.INVOICE.value)
    if invoice_id is not None:
        statement = statement.where(PART.c.invoice_id == invoice_id)
    if payment_id is not None:
        statement = statement.where(PART.c.payment_id == payment_id)
    rows = conn.execute(statement.group_by(*names).having(total != 0).order_by(*names))
    return [(payment, invoice, int(cents)) for payment, invoice, cents in rows]


def tendered_due(
    conn: Connection, invoice_id: str, conversion: Conversion, left_cents: int
) -> TenderedDue:
    """What money of the other currency is to pay of an invoice. `left_cents` is what is due of it
    in USD. A part that the invoice has no more is taken off what came, at the rate."""
    columns = PAYMENT.c.amount_cents, PAYMENT.c.tendered_cents, func.sum(PART.c.amount_cents)
    statement = (
        select(*columns)
        .join(PART, PART.c.payment_id == PAYMENT.c.payment_id)
        .where(PAYMENT.c.invoice_id == invoice_id, PART.c.invoice_id == invoice_id)
        .where(PAYMENT.c.tendered_currency == conversion.currency)
        .group_by(PAYMENT.c.payment_id)
        .having(func.sum(PART.c.amount_cents) > 0)
    )
    booked = came = 0
    for amount, tendered, taken in conn.execute(statement):
        booked += int(taken)
        came += max(0, tendered - conversion.cents(amount - int(taken)))
    return TenderedDue(conversion, left_cents + booked, booked, came)


def insert_payment(
    conn: Connection, receipt: Receipt, by: str, now_us: int, *, usd_cents: int | None = None
) -> Row:
    """The money is on account from now on, in USD: `usd_cents` where it came in another currency.
    That of a credit note was owed, and is no cash."""
    cents = receipt.amount_cents if usd_cents is None else usd_cents
    is_other = receipt.currency != USD
    row = {
        **{"payment_id": receipt.payment_id, "org": receipt.org},
        **{"external_id": receipt.external_id, "source": receipt.source.value},
        **{"invoice_id": receipt.invoice_id, "amount_cents": cents},
        **{"currency": USD, "received_us": receipt.received_us},
        **{"note": receipt.note, "created_by": by, "created_us": now_us},
        "tendered_currency": receipt.currency if is_other else None,
        "tendered_cents": receipt.amount_cents if is_other else None,
    }
    conn.execute(insert(PAYMENT), [row])
    came = "payment", CASH
    if receipt.source is Source.CREDIT_NOTE:
        came = "payment_applied", receivable(receipt.org)
    _post(conn, row, f"{row['payment_id']}:payment", *came, cents, now_us)
    return row


def insert_part(
    conn: Connection,
    payment: Mapping[str, Any],
    kind: PartKind,
    cents: int,
    *,
    by: str,
    now_us: int,
    invoice_id: str | None = None,
    external_id: str = "",
    reason: str = "",
) -> None:
    """Take cents from what a payment has on account; below zero they come back from an invoice."""
    payment_id = payment["payment_id"]
    last = select(func.coalesce(func.max(PART.c.n), 0)).where(PART.c.payment_id == payment_id)
    n = int(conn.execute(last).scalar_one()) + 1
    row = {"payment_id": payment_id, "n": n, "kind": kind.value, "invoice_id": invoice_id}
    row |= {"amount_cents": cents, "external_id": external_id, "reason": reason}
    conn.execute(insert(PART), [row | {"created_by": by, "created_us": now_us}])
    other = receivable(payment["org"]) if kind is PartKind.INVOICE else CASH
    word = LEFT_AGAIN.get(kind, "payment_applied")
    _post(conn, payment, f"{payment_id}:{n}", word, other, -cents, now_us)


def on_account_by_org(conn: Connection) -> dict[str, int]:
    """Cents that payments have in no part, by organization."""
    came = select(PAYMENT.c.org, func.sum(PAYMENT.c.amount_cents)).group_by(PAYMENT.c.org)
    left = (
        select(PAYMENT.c.org, func.sum(PART.c.amount_cents))
        .join(PAYMENT, PAYMENT.c.payment_id == PART.c.payment_id)
        .group_by(PAYMENT.c.org)
    )
    gone = {org: int(cents) for org, cents in conn.execute(left)}
    return {org: int(cents) - gone.get(org, 0) for org, cents in conn.execute(came)}


def over_used(conn: Connection) -> Sequence[str]:
    """Payments of which more went away than came."""
    statement = (
        select(PART.c.payment_id)
        .join(PAYMENT, PAYMENT.c.payment_id == PART.c.payment_id)
        .group_by(PART.c.payment_id, PAYMENT.c.amount_cents)
        .having(func.sum(PART.c.amount_cents) > PAYMENT.c.amount_cents)
    )
    return list(conn.execute(statement).scalars())


def _post(
    conn: Connection,
    payment: Mapping[str, Any],
    transfer_id: str,
    kind: str,
    other: str,
    cents: int,
    now_us: int,
) -> None:
    """Move cents from an account to the organization's credit, or back where they are negative."""
    org = payment["org"]
    debit, credit = (other, on_account(org)) if cents > 0 else (on_account(org), other)
    amount = abs(cents) * NANOUSD_PER_CENT
    row = transfer(
        transfer_id, kind, debit, credit, amount, org=org, booked_us=now_us, created_us=now_us
    )
    transfers.post(conn, [row])
