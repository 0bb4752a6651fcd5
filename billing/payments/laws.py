"""Laws of payments: what the ledger has on account is what no part of a payment took."""

from __future__ import annotations

from sqlalchemy import Connection, select

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
