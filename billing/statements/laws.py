"""The law of statements: what documents and payments say is owed is what the ledger says."""

from __future__ import annotations

from sqlalchemy import Connection, func, or_, select

from billing.ledger.report import Check, judged
from billing.ledger.store import ACCOUNT
from billing.money import NANOUSD_PER_CENT
from billing.statements.store import cents_by_org

OF_STATEMENTS = ("org:%:receivable", "org:%:on_account")


def statements_are_the_ledger(conn: Connection) -> Check:
    of_statements = or_(*(ACCOUNT.c.code.like(pattern) for pattern in OF_STATEMENTS))
    balance = func.sum(ACCOUNT.c.debits - ACCOUNT.c.credits)
    rows = select(ACCOUNT.c.org, balance).where(of_statements).group_by(ACCOUNT.c.org)
    owed = {org: int(nanousd) for org, nanousd in conn.execute(rows)}
    stated = {org: cents * NANOUSD_PER_CENT for org, cents in cents_by_org(conn)}
    breaks = [
        f"{org}: the ledger has {owed.get(org, 0)}, its statement {stated.get(org, 0)}"
        for org in sorted(owed.keys() | stated.keys())
        if owed.get(org, 0) != stated.get(org, 0)
    ]
    return judged(
        "P2 statements",
        "what documents and payments say an organization owes is what the ledger says",
        breaks,
        len(owed),
    )
