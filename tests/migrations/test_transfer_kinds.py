"""A new kind of transfer or line is a row, on a ledger that has rows, on both databases."""

from __future__ import annotations

import pytest
from alembic import command
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from migrations.run import alembic_config, migrate, rebuilding
from tests.migrations.test_credits import insert, refused, transfer, with_a_ledger_of

BEFORE, OF_KINDS = "0044", "0045"


def test_new_kind_is_a_row_and_an_unknown_one_is_refused(url: str) -> None:
    store = with_a_ledger_of(url, BEFORE)
    migrate(url)
    with store.read() as conn:
        rows = conn.execute(text("SELECT transfer_id, reverses_id FROM transfer ORDER BY 1")).all()
        assert rows == [("c", None), ("r", "c")]
        assert conn.execute(text("SELECT count(*) FROM invoice_line")).scalar_one() == 1
    for statement in (
        *("UPDATE transfer SET org = 'x'", "DELETE FROM transfer"),
        *("UPDATE invoice_line SET model = 'x'", "DELETE FROM invoice_line"),
    ):
        refused(store, statement)
    with pytest.raises(IntegrityError), store.write() as conn:
        transfer(conn, transfer_id="t", kind="gift")
    with store.write() as conn:
        conn.execute(text("INSERT INTO transfer_kind VALUES ('gift')"))
        transfer(conn, transfer_id="t", kind="gift")
    with store.write() as conn:
        insert(conn, "invoice", invoice_id="j", org="p", status="draft", number=None)
    with pytest.raises(IntegrityError), store.write() as conn:
        insert(conn, "invoice_line", invoice_id="j", kind="gift", seq=1)
    store.close()


def test_ledger_of_known_kinds_goes_back_with_its_guards(url: str) -> None:
    store = with_a_ledger_of(url, BEFORE)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), OF_KINDS)
        command.downgrade(alembic_config(conn), BEFORE)
        assert conn.execute(text("SELECT count(*) FROM transfer")).scalar_one() == 2
    for statement in ("DELETE FROM transfer", "DELETE FROM invoice_line"):
        refused(store, statement)
    with pytest.raises(IntegrityError), store.write() as conn:
        transfer(conn, transfer_id="t", kind="gift")
    store.close()
