"""Statements that look for broken laws of credits: sums by account, movements in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, or_, select

from billing.credits.credit import Grant
from billing.posting import unbilled
from billing.store.among import among
from billing.store.credits import STANDING, find, grant_of
from billing.store.rollups import DAY
from billing.store.transfers import ACCOUNT, TRANSFER
from billing.store.usage import CORRECTION, EVENT

OF_GRANTS = "org:%:grant:%"


class Record(NamedTuple):
    """What a burn depends on, of one record of a call."""

    model: str
    admitted_us: int
    amount_nanousd: int


def grants(conn: Connection, org: str | None = None) -> list[Grant]:
    return [grant_of(row) for row in find(conn, org=org)]


def sums_of_grants(conn: Connection) -> dict[str, dict[str, tuple[int, int]]]:
    """By account of a grant and kind of transfer (count, nano-USD), debits below zero."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for account, sign in ((TRANSFER.c.debit_account, -1), (TRANSFER.c.credit_account, 1)):
        sums = (
            select(account, TRANSFER.c.kind, func.count(), func.sum(TRANSFER.c.amount_nanousd))
            .where(account.like(OF_GRANTS))
            .group_by(account, TRANSFER.c.kind)
        )
        for code, kind, count, nanousd in conn.execute(sums):
            of_account = found.setdefault(code, {})
            before = of_account.get(kind, (0, 0))
            of_account[kind] = before[0] + count, before[1] + sign * int(nanousd)
    return found


def standings(conn: Connection) -> dict[str, int]:
    """By organization what stands as cleared."""
    rows = conn.execute(select(STANDING.c.org, STANDING.c.cleared_nanousd))
    return {row.org: row.cleared_nanousd for row in rows}


def spent_and_owed(conn: Connection, orgs: Sequence[str]) -> dict[str, tuple[int, int]]:
    """What organizations ever spent, by the sums of days, and what they owe, by their accounts."""
    spent = select(DAY.c.org, func.sum(DAY.c.amount_nanousd)).where(among(conn, DAY.c.org, orgs))
    sums = {org: int(nanousd) for org, nanousd in conn.execute(spent.group_by(DAY.c.org))}
    codes = [code for org in orgs for code in (unbilled(org), f"org:{org}:receivable")]
    balances = select(ACCOUNT.c.org, ACCOUNT.c.debits - ACCOUNT.c.credits)
    owed: dict[str, int] = {}
    for org, nanousd in conn.execute(balances.where(among(conn, ACCOUNT.c.code, codes))):
        owed[org] = owed.get(org, 0) + nanousd
    return {org: (sums.get(org, 0), owed.get(org, 0)) for org in orgs}


def rounded(conn: Connection, orgs: Sequence[str]) -> dict[str, int]:
    """What the cents of invoices have added to what organizations owe."""
    found: dict[str, int] = {}
    for account, sign in ((TRANSFER.c.debit_account, 1), (TRANSFER.c.credit_account, -1)):
        sums = select(TRANSFER.c.org, func.sum(TRANSFER.c.amount_nanousd)).where(
            TRANSFER.c.kind == "rounding", account.like("org:%"), among(conn, TRANSFER.c.org, orgs)
        )
        for org, nanousd in conn.execute(sums.group_by(TRANSFER.c.org)):
            found[org] = found.get(org, 0) + sign * int(nanousd)
    return found


def moved_last(conn: Connection, limit: int) -> list[str]:
    """The organizations whose credits have moved last, the last first."""
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


def records(conn: Connection, rids: Sequence[str]) -> dict[tuple[str, int], Record]:
    """Every record of these calls, by request id and number."""
    found: dict[tuple[str, int], Record] = {}
    for table, n in ((EVENT, None), (CORRECTION, CORRECTION.c.n)):
        names = ("rid", "model", "admitted_us", "amount_nanousd")
        columns = [table.c[name] for name in names]
        asked = select(*columns, *([] if n is None else [n])).where(among(conn, table.c.rid, rids))
        for rid, model, admitted_us, amount, *number in conn.execute(asked):
            found[rid, number[0] if number else 1] = Record(model, admitted_us, amount)
    return found
