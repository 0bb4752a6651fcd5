"""Statements that look for broken laws of credits: sums by account, movements in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, or_, select

from billing.credits.credit import Grant
from billing.credits.store import STANDING, find, grant_of
from billing.db.in_list import in_list
from billing.ledger.posting import receivable, unbilled
from billing.ledger.store import ACCOUNT, TRANSFER
from billing.usage.rollups import DAY
from billing.usage.store import CORRECTION, EVENT

OF_GRANTS = "org:%:grant:%"


class BurnRecord(NamedTuple):
    """The columns of a call's record on which a burn depends."""

    model: str
    admitted_us: int
    amount_nanousd: int


def grants(conn: Connection, org: str | None = None) -> list[Grant]:
    return [grant_of(row) for row in find(conn, org=org)]


def sums_of_grants(conn: Connection) -> dict[str, dict[str, tuple[int, int]]]:
    """For each account of a grant and each kind of transfer: (count, nano-USD). Debits count below
    zero."""
    by_account: dict[str, dict[str, tuple[int, int]]] = {}
    for account, sign in ((TRANSFER.c.debit_account, -1), (TRANSFER.c.credit_account, 1)):
        sums = (
            select(account, TRANSFER.c.kind, func.count(), func.sum(TRANSFER.c.amount_nanousd))
            .where(account.like(OF_GRANTS))
            .group_by(account, TRANSFER.c.kind)
        )
        for code, kind, count, nanousd in conn.execute(sums):
            of_account = by_account.setdefault(code, {})
            before = of_account.get(kind, (0, 0))
            of_account[kind] = before[0] + count, before[1] + sign * int(nanousd)
    return by_account


def standings(conn: Connection) -> dict[str, int]:
    """The cleared amount that stands for each organization."""
    rows = conn.execute(select(STANDING.c.org, STANDING.c.cleared_nanousd))
    return {row.org: row.cleared_nanousd for row in rows}


def spent_and_owed(conn: Connection, orgs: Sequence[str]) -> dict[str, tuple[int, int]]:
    """For each organization what it ever spent, by the sums of days, and what it owes, by its
    accounts."""
    spent = select(DAY.c.org, func.sum(DAY.c.amount_nanousd)).where(in_list(conn, DAY.c.org, orgs))
    sums = {org: int(nanousd) for org, nanousd in conn.execute(spent.group_by(DAY.c.org))}
    balances = select(ACCOUNT.c.org, ACCOUNT.c.debits - ACCOUNT.c.credits)
    debts: dict[str, int] = {}
    for org, nanousd in conn.execute(balances.where(in_list(conn, ACCOUNT.c.code, _debts(orgs)))):
        debts[org] = debts.get(org, 0) + nanousd
    return {org: (sums.get(org, 0), debts.get(org, 0)) for org in orgs}


def owed_otherwise(conn: Connection, orgs: Sequence[str]) -> dict[str, int]:
    """For each organization what it owes for anything but its calls: cents, taxes, payments."""
    totals: dict[str, int] = {}
    for account, sign in ((TRANSFER.c.debit_account, 1), (TRANSFER.c.credit_account, -1)):
        sums = select(TRANSFER.c.org, func.sum(TRANSFER.c.amount_nanousd)).where(
            TRANSFER.c.kind.not_in(("charge", "reversal", "burn")),
            in_list(conn, account, _debts(orgs)),
            in_list(conn, TRANSFER.c.org, orgs),
        )
        for org, nanousd in conn.execute(sums.group_by(TRANSFER.c.org)):
            totals[org] = totals.get(org, 0) + sign * int(nanousd)
    return totals


def _debts(orgs: Sequence[str]) -> list[str]:
    """The accounts of what organizations owe."""
    return [code for org in orgs for code in (unbilled(org), receivable(org))]


def moved_last(conn: Connection, limit: int) -> list[str]:
    """The organizations whose credits moved last, the latest first."""
    ordered = select(STANDING.c.org).order_by(STANDING.c.moved_us.desc(), STANDING.c.org)
    return list(conn.execute(ordered.limit(limit)).scalars())


def movements(conn: Connection, org: str, limit: int) -> list[dict[str, Any]]:
    """The first movements of an organization's credits, in the order in which they happened."""
    of_grants = or_(
        TRANSFER.c.debit_account.like(OF_GRANTS), TRANSFER.c.credit_account.like(OF_GRANTS)
    )
    ordered = (
        select(TRANSFER)
        .where(TRANSFER.c.org == org, of_grants)
        .order_by(TRANSFER.c.created_us, TRANSFER.c.transfer_id)
        .limit(limit)
    )
    return [dict(row) for row in conn.execute(ordered).mappings()]


def records(conn: Connection, rids: Sequence[str]) -> dict[tuple[str, int], BurnRecord]:
    """Every record of these calls, by request id and number."""
    by_number: dict[tuple[str, int], BurnRecord] = {}
    for table, n in ((EVENT, None), (CORRECTION, CORRECTION.c.n)):
        names = ("rid", "model", "admitted_us", "amount_nanousd")
        columns = [table.c[name] for name in names]
        query = select(*columns, *([] if n is None else [n])).where(
            in_list(conn, table.c.rid, rids)
        )
        for rid, model, admitted_us, amount, *number in conn.execute(query):
            by_number[rid, number[0] if number else 1] = BurnRecord(model, admitted_us, amount)
    return by_number
