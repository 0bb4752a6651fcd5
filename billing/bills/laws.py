"""Laws of providers' bills: bills and booked attempts differ by what was posted."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, select

from billing.bills import store as bills
from billing.bills.reconciliation import payable_account, variance_account
from billing.ledger.report import Check, judged
from billing.ledger.store import ACCOUNT


def variances_are_posted(conn: Connection) -> Check:
    sums = bills.variances(conn)
    return judged(
        "B1 bills_of_providers",
        "what a bill says is what was booked and what was posted, and the accounts of a provider "
        "are the sum of its variances",
        _wrong(conn, sums),
        len(sums),
    )


def _wrong(conn: Connection, sums: dict[str, int]) -> Iterator[str]:
    for row in bills.wrong_lines(conn, 1):
        yield f"{row['provider']} {row['day']} {row['model']}: posted {row['variance_nanousd']}"
    prefix = variance_account("")
    net = ACCOUNT.c.debits - ACCOUNT.c.credits
    codes = ACCOUNT.c.code.startswith(prefix, autoescape=True) | ACCOUNT.c.code.startswith(
        payable_account(""), autoescape=True
    )
    stands = {
        code: int(amount) for code, amount in conn.execute(select(ACCOUNT.c.code, net).where(codes))
    }
    due = {variance_account(name): amount for name, amount in sums.items()}
    due |= {payable_account(name): -amount for name, amount in sums.items()}
    for code in sorted({*stands, *due}):
        if stands.get(code, 0) != due.get(code, 0):
            yield f"{code}: stands at {stands.get(code, 0)}, its bills give {due.get(code, 0)}"
