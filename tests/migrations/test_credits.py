"""What the revision of credits does to a ledger that has rows, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import IntegrityError

from billing.db.engine import Store, open_store
from migrations.run import alembic_config, migrate, rebuilding

BEFORE, OF_CREDITS = "0011", "0012"


def insert(conn: Connection, table: str, **values: Any) -> None:
    """A row in which what is not given is 1 or '1'."""
    row = {
        column["name"]: values[column["name"]]
        if column["name"] in values
        else column["type"].python_type(1)
        for column in inspect(conn).get_columns(table)
    }
    places = ", ".join(f":{name}" for name in row)
    conn.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})"), row)


def transfer(conn: Connection, **values: Any) -> None:
    given = {"debit_account": "a", "credit_account": "b", "rid": None, "reverses_id": None}
    insert(conn, "transfer", **(given | values))


def with_a_ledger_of(url: str, revision: str) -> Store:
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), revision)
        for code in ("a", "b", "org:o:grant:g"):
            insert(conn, "account", code=code, org=None, debits=0, credits=5)
        transfer(conn, transfer_id="c", kind="charge")
        transfer(conn, transfer_id="r", kind="reversal", reverses_id="c")
        insert(conn, "invoice", invoice_id="i", status="draft", number=None)
        insert(conn, "invoice_line", invoice_id="i", kind="usage", seq=1)
        insert(conn, "invoice_transfer", transfer_id="c", invoice_id="i")
        conn.execute(text("UPDATE invoice SET status = 'finalised', number = 1"))
    return store


def refused(store: Store, statement: str) -> None:
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text(statement))


def test_rows_and_guards_of_the_ledger_outlive_the_revision_of_credits(url: str) -> None:
    store = with_a_ledger_of(url, BEFORE)
    migrate(url)
    with store.read() as conn:
        rows = conn.execute(text("SELECT transfer_id, reverses_id FROM transfer ORDER BY 1")).all()
        assert rows == [("c", None), ("r", "c")]
        assert conn.execute(text("SELECT grant_id FROM invoice_line")).scalar_one() == ""
    for statement in (
        "UPDATE transfer SET org = 'x'",
        "DELETE FROM transfer",
        "UPDATE invoice_line SET model = 'x'",
        "DELETE FROM invoice_line",
    ):
        refused(store, statement)
    with store.write() as conn:
        for kind in ("grant", "burn", "breakage", "void", "cost", "unallocated"):
            transfer(conn, transfer_id=kind, kind=kind)
    with pytest.raises(IntegrityError), store.write() as conn:
        transfer(conn, transfer_id="t", kind="gift")
    with pytest.raises(IntegrityError), store.write() as conn:
        transfer(conn, transfer_id="r2", kind="reversal", reverses_id="c")
    store.close()


def test_a_ledger_without_credits_goes_back_and_one_with_them_does_not(url: str) -> None:
    store = with_a_ledger_of(url, OF_CREDITS)
    with rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), BEFORE)
        assert "grant_id" not in {c["name"] for c in inspect(conn).get_columns("invoice_line")}
    for statement in ("DELETE FROM transfer", "DELETE FROM invoice_line"):
        refused(store, statement)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), OF_CREDITS)
        transfer(conn, transfer_id="g", kind="grant")
    with pytest.raises(IntegrityError), rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), BEFORE)
    store.close()


def test_a_grant_never_changes_and_its_account_is_never_overdrawn(url: str) -> None:
    store = with_a_ledger_of(url, OF_CREDITS)
    with store.write() as conn:
        given = {"grant_id": "g", "category": "paid", "effective_us": 1, "expires_us": None}
        insert(conn, "credit_grant", **given, models="[]")
        insert(conn, "credit_void", grant_id="g")
    for table in ("credit_grant", "credit_void"):
        refused(store, f"UPDATE {table} SET grant_id = 'h'")
        refused(store, f"DELETE FROM {table}")
    with store.write() as conn:
        conn.execute(text("UPDATE account SET debits = 5 WHERE code = 'org:o:grant:g'"))
        conn.execute(text("UPDATE account SET debits = 6 WHERE code = 'a'"))
    refused(store, "UPDATE account SET debits = 6 WHERE code = 'org:o:grant:g'")
    store.close()
