"""Statements on accounts and transfers. Totals move in the transaction of their transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from billing.db.columns import table_of
from billing.db.insert import Row, add_to, insert_rows
from billing.ledger.closed import open_from_us, refuse_closed
from billing.ledger.tables import Account, Transfer

ACCOUNT = table_of(Account)
TRANSFER = table_of(Transfer)
ACCOUNT_COLUMNS = ("code", "org", "currency", "debits", "credits")


def post(conn: Connection, transfers: Sequence[Row], *, open_us: int | None = None) -> None:
    """Move the totals, one row an account in the order of codes, and insert the transfers.
    `open_us` is from when the books are open, where this transaction has asked already. Raises
    PeriodClosed."""
    if not transfers:
        return
    refuse_closed(transfers, open_from_us(conn) if open_us is None else open_us)
    moved: dict[str, list[int]] = {}
    orgs: dict[str, str] = {}
    for row in transfers:
        amount = row["amount_nanousd"]
        for place, code in enumerate((row["debit_account"], row["credit_account"])):
            totals = moved.get(code)
            if totals is None:
                totals = moved[code] = [0, 0]
                orgs[code] = row["org"]
            totals[place] += amount
    rows = [
        (code, orgs[code] if code.startswith("org:") else None, "USD", *moved[code])
        for code in sorted(moved)
    ]
    add_to(conn, ACCOUNT, ACCOUNT_COLUMNS, rows, ("debits", "credits"))
    insert_rows(conn, TRANSFER, transfers)


def of_call(conn: Connection, rid: str) -> list[dict[str, Any]]:
    """The transfers of a request id, in the order they were written."""
    rows = conn.execute(
        select(TRANSFER)
        .where(TRANSFER.c.rid == rid)
        .order_by(TRANSFER.c.created_us, TRANSFER.c.transfer_id)
    )
    return [dict(row) for row in rows.mappings()]


def recent(
    conn: Connection,
    limit: int,
    org: str | None,
    *,
    rid: str | None = None,
    before: tuple[int, str] | None = None,
) -> list[dict[str, Any]]:
    """The newest transfers by the time at which they count, from the one that follows that time and
    id."""
    order = TRANSFER.c.booked_us.desc(), TRANSFER.c.transfer_id.desc()
    statement = select(TRANSFER).order_by(*order).limit(limit)
    if org is not None:
        statement = statement.where(TRANSFER.c.org == org)
    if rid is not None:
        statement = statement.where(TRANSFER.c.rid == rid)
    if before is not None:
        booked_us, transfer_id = before
        older = (TRANSFER.c.booked_us < booked_us) | (TRANSFER.c.transfer_id < transfer_id)
        statement = statement.where(TRANSFER.c.booked_us <= booked_us, older)
    return [dict(row) for row in conn.execute(statement).mappings()]


def accounts(
    conn: Connection, *, behind: str | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    statement = select(ACCOUNT).order_by(ACCOUNT.c.code).limit(limit)
    if behind is not None:
        statement = statement.where(ACCOUNT.c.code > behind)
    return [dict(row) for row in conn.execute(statement).mappings()]
