"""Laws of payments: what the ledger has on account is what no part of a payment took.

The credit of an invoice below zero is there once.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from billing.invoices.store import INVOICE, VOID
from billing.ledger.posting import on_account
from billing.ledger.report import Check, judged
from billing.ledger.store import ACCOUNT
from billing.money import NANOUSD_PER_CENT
from billing.payments import store as rows


def payments_are_accounted_for(conn: Connection) -> Check:
    expected = {
        on_account(org): cents * NANOUSD_PER_CENT
        for org, cents in rows.on_account_by_org(conn).items()
    }
    moved = select(ACCOUNT.c.code, ACCOUNT.c.credits - ACCOUNT.c.debits).where(
        ACCOUNT.c.code.like("org:%:on_account")
    )
    stands = {code: int(balance) for code, balance in conn.execute(moved)}
    breaks = [
        f"{code}: stands at {stands.get(code, 0)}, its payments have {expected.get(code, 0)}"
        for code in sorted(expected.keys() | stands.keys())
        if stands.get(code, 0) != expected.get(code, 0)
    ]
    breaks += [f"{payment_id}: more left than came" for payment_id in rows.over_used(conn)]
    return judged(
        "P1 payments",
        "credit on account is what no part of a payment took",
        breaks,
        len(expected),
    )


def credits_are_given_once(conn: Connection) -> Check:
    rows_of_credits = _credits(conn)
    return judged(
        "P5 credits",
        "an invoice below zero has put its credit on account once, and a void one has none there",
        (problem for row in rows_of_credits if (problem := _wrong(*row))),
        len(rows_of_credits),
    )


def _credits(conn: Connection) -> list[tuple[str, int, int, int, bool]]:
    """(invoice, what it is below zero by, credits, cents on account, void) of what has one."""
    payment, part = rows.PAYMENT, rows.PART
    own = (part.c.payment_id == payment.c.payment_id) & (part.c.invoice_id == payment.c.invoice_id)
    back = select(func.coalesce(func.sum(part.c.amount_cents), 0)).where(own)
    given = payment.c.amount_cents - back.correlate(payment).scalar_subquery()
    below = -(INVOICE.c.total_cents + INVOICE.c.tax_cents)
    joined = payment.join(INVOICE, INVOICE.c.invoice_id == payment.c.invoice_id).outerjoin(
        VOID, VOID.c.invoice_id == INVOICE.c.invoice_id
    )
    by = INVOICE.c.invoice_id, below, VOID.c.voided_us
    statement = (
        select(INVOICE.c.invoice_id, below, func.count(), func.sum(given), VOID.c.voided_us)
        .select_from(joined)
        .where(rows.IS_CREDIT)
        .group_by(*by)
    )
    return [
        (invoice_id, int(cents), count, int(stands), voided_us is not None)
        for invoice_id, cents, count, stands, voided_us in conn.execute(statement)
    ]


def _wrong(invoice_id: str, below: int, count: int, stands: int, is_void: bool) -> str | None:
    due = 0 if is_void else below
    if (count, stands) != (1, due):
        return f"{invoice_id}: {count} credits have put {stands} cents on account, not {due}"
    return None
