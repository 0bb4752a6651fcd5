"""Statements on accounts and transfers. Totals move in the transaction of their transfers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from billing.store.insert import Row, insert_new
from billing.tables import Account, Transfer, table_of

ACCOUNT = table_of(Account)
TRANSFER = table_of(Transfer)


def post(conn: Connection, transfers: Sequence[Row]) -> None:
    """Insert transfers and move the totals: one update an account, in the order of codes."""
    if not transfers:
        return
    moved: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    orgs: dict[str, str | None] = {}
    for row in transfers:
        moved[row["debit_account"]][0] += row["amount_nanousd"]
        moved[row["credit_account"]][1] += row["amount_nanousd"]
        for code in (row["debit_account"], row["credit_account"]):
            orgs[code] = row["org"] if code.startswith("org:") else None
    codes = sorted(moved)
    insert_new(
        conn,
        ACCOUNT,
        [
            {"code": code, "org": orgs[code], "currency": "USD", "debits": 0, "credits": 0}
            for code in codes
        ],
    )
    conn.execute(insert(TRANSFER), transfers)
    conn.execute(
        update(ACCOUNT)
        .where(ACCOUNT.c.code == bindparam("account"))
        .values(
            debits=ACCOUNT.c.debits + bindparam("debited"),
            credits=ACCOUNT.c.credits + bindparam("credited"),
        ),
        [
            {"account": code, "debited": moved[code][0], "credited": moved[code][1]}
            for code in codes
        ],
    )


def of_call(conn: Connection, rid: str) -> list[dict[str, Any]]:
    """The transfers of a request id, in the order they were written."""
    rows = conn.execute(
        select(TRANSFER)
        .where(TRANSFER.c.rid == rid)
        .order_by(TRANSFER.c.created_us, TRANSFER.c.transfer_id)
    )
    return [dict(row) for row in rows.mappings()]


def recent(conn: Connection, limit: int, org: str | None) -> list[dict[str, Any]]:
    statement = select(TRANSFER).order_by(TRANSFER.c.created_us.desc()).limit(limit)
    if org is not None:
        statement = statement.where(TRANSFER.c.org == org)
    return [dict(row) for row in conn.execute(statement).mappings()]


def accounts(conn: Connection) -> list[dict[str, Any]]:
    return [dict(row) for row in conn.execute(select(ACCOUNT).order_by(ACCOUNT.c.code)).mappings()]
