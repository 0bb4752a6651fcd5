"""One history for every table: from nothing to what the row classes say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import IntegrityError

from billing.db.engine import open_store
from billing.db.insert import insert_rows
from billing.ledger.posting import transfer
from billing.ledger.store import TRANSFER
from billing.prices.book import Discount, Prices
from billing.prices.versions import list_versions, load_book, put_into_force
from billing.usage import sum_audit
from billing.usage.rollup import DAY_US, HOUR_US
from gateway.tenants.store import TenantStore
from migrations.run import BrokenReference, alembic_config, migrate, rebuilding
from tests.nursery import Part


def test_the_newest_revision_is_what_the_row_classes_say(url: str) -> None:
    migrate(url)
    store = open_store(url)
    with store.write() as conn:
        command.check(alembic_config(conn))
    store.close()


def test_migrating_again_does_nothing(url: str) -> None:
    migrate(url)
    migrate(url)


def test_the_way_down_leaves_nothing(url: str) -> None:
    migrate(url)
    store = open_store(url)
    with store.write() as conn:
        command.downgrade(alembic_config(conn), "base")
        assert set(inspect(conn).get_table_names()) <= {"alembic_version"}
    store.close()


ROWS_OF_0002 = (
    "organization VALUES ('o', 'O', 'o', 'active', 1)",
    "project VALUES ('p', 'o', 'P', 'active', 1)",
    "api_key (id, project_id, org_id, name, hash, prefix, created_us, is_bootstrap)"
    " VALUES ('k', 'p', 'o', 'K', x'0102', 'sk', 7, 0)",
    "model (name, context_tokens, max_output_tokens, size_rank, quality, enabled, source)"
    " VALUES ('m', 8, 4, 1, 0.5, 1, 'admin')",
    "pool VALUES ('q', 'm', 'fp16', 'spot', NULL, NULL, 0, 1, 0, 9.0, 1.0, 8, 1, 2, 3, 4.0, 1,"
    " 'admin')",
)


def test_rows_of_an_earlier_revision_stay_what_they_are_both_ways(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), "0002")
        for row in ROWS_OF_0002:
            conn.execute(text(f"INSERT INTO {row}"))
    migrate(url)
    tenants = TenantStore(open_store(url))
    found = tenants.key_by_hash(b"\x01\x02")
    assert found is not None and (found.key.id, found.expires_us) == ("k", None)
    rows = tenants.catalog()
    (model,), (pool,) = rows.models, rows.pools
    assert (model.name, model.task, pool.model, pool.num_gpus) == ("m", "generate", "m", 0)
    with rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), "0002")
        assert conn.execute(text("SELECT hash FROM api_key")).scalar_one() == b"\x01\x02"
    store.close()


def test_usage_booked_before_there_were_sums_is_summed(url: str) -> None:
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), "0004")
        for rid, ended_us in (("a", 1), ("b", 2), ("c", 2 * HOUR_US)):
            _record(conn, "usage_event", rid=rid, ended_us=ended_us, output=3, pool="p")
        for n, output in ((2, 5), (3, 7)):
            _record(
                conn, "usage_correction", rid="b", n=n, ended_us=HOUR_US, output=output, pool="q"
            )
    migrate(url)
    with store.read() as conn:
        hours = conn.execute(
            text("SELECT hour_us, pool, requests, output FROM usage_hour ORDER BY hour_us, pool")
        ).all()
        assert hours == [(0, "p", 1, 3), (0, "q", 1, 7), (2 * HOUR_US, "p", 1, 3)]
        days = conn.execute(text("SELECT day_us, pool, requests, output FROM usage_day")).all()
        assert sorted(days) == [(0, "p", 2, 6), (0, "q", 1, 7)]
        everything = (conn, 0, 3 * DAY_US)
        assert sum_audit.wrong_hours(*everything) == sum_audit.wrong_days(*everything) == []
        assert sum_audit.wrong_org_days(*everything) == []
    store.close()


def test_prices_of_an_earlier_revision_hold_on_and_cannot_change(url: str) -> None:
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), "0005")
        for version, status, from_us in (("pv_a", "active", "7"), ("pv_d", "draft", "NULL")):
            named = "version_id, status, effective_from_us, created_us, created_by, note"
            conn.execute(
                text(
                    f"INSERT INTO price_version ({named}) "
                    f"VALUES ('{version}', 'draft', NULL, 5, 'settings', '')"
                )
            )
            for component in ("input", "output"):
                conn.execute(
                    text(
                        "INSERT INTO price_rate VALUES "
                        f"('{version}', 'm', 'default', FALSE, '{component}', 9)"
                    )
                )
            conn.execute(
                text(
                    f"UPDATE price_version SET status = '{status}', effective_from_us = {from_us} "
                    f"WHERE version_id = '{version}'"
                )
            )
    migrate(url)
    active, draft = sorted(list_versions(store), key=lambda version: version.version_id)
    assert (active.status, active.effective_from_us, active.approved_by) == (
        "active",
        7,
        "settings",
    )
    assert (draft.status, draft.approved_us, draft.rates[0].prompt_from) == ("draft", None, 0)
    prices = load_book(store).lookup("m", "default", False, 8)
    assert isinstance(prices, Prices) and (prices.input, prices.output) == (9, 9)
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text("UPDATE price_rate SET nanousd_per_mtok = 1 WHERE version_id = 'pv_a'"))
    put_into_force(store, [], by="a", now_us=9, org="o", discounts=[Discount("", 5)])
    with rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), "0005")
        rows = conn.execute(text("SELECT version_id, status FROM price_version ORDER BY 1")).all()
        assert rows == [("pv_a", "active"), ("pv_d", "draft")]
        assert conn.execute(text("SELECT count(*) FROM price_rate")).scalar_one() == 4
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text("UPDATE price_rate SET nanousd_per_mtok = 1"))
    store.close()


def _record(conn: Connection, table: str, **values: Any) -> None:
    """A row in which what is not given is 1."""
    given = {"source": "exact", "status": "answered", "batch": True, "payload_sha": b"1", **values}
    row = {
        column["name"]: given.get(column["name"], column["type"].python_type(1))
        for column in inspect(conn).get_columns(table)
    }
    places = ", ".join(f":{name}" for name in row)
    conn.execute(text(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})"), row)


def test_migration_that_leaves_a_row_without_its_parent_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    migrate(url)
    store = open_store(url)
    with pytest.raises(BrokenReference, match="project"), rebuilding(store) as conn:
        conn.execute(text("INSERT INTO project VALUES ('p', 'nobody', 'P', 'active', 1)"))
    with store.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM project")).scalar_one() == 0
    with pytest.raises(IntegrityError), store.write() as conn:
        conn.execute(text("INSERT INTO project VALUES ('p', 'nobody', 'P', 'active', 1)"))
    store.close()


def test_processes_that_start_together_migrate_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'a.db'}"
    started = [Part(migrate, url, env=os.environ) for _ in range(3)]
    assert [process.wait(timeout=150) for process in started] == [0, 0, 0]


TWO_ACCOUNTS = "INSERT INTO account VALUES ('a', NULL, 'USD', 0, 0), ('b', NULL, 'USD', 0, 0)"


@pytest.mark.parametrize(
    "row",
    [
        "('t', 'charge', 'a', 'b', 0, 'USD', 'o', NULL, NULL, 1, 1)",
        "('t', 'charge', 'a', 'a', 1, 'USD', 'o', NULL, NULL, 1, 1)",
        "('t', 'charge', 'a', 'nobody', 1, 'USD', 'o', NULL, NULL, 1, 1)",
        "('t', 'charge', 'nobody', 'b', 1, 'USD', 'o', NULL, NULL, 1, 1)",
        "('t', 'gift', 'a', 'b', 1, 'USD', 'o', NULL, NULL, 1, 1)",
        "('t', 'reversal', 'a', 'b', 1, 'USD', 'o', NULL, 'nothing', 1, 1)",
    ],
    ids=[
        "nothing moved",
        "one account",
        "to an unknown account",
        "from an unknown account",
        "unknown kind",
        "of nothing",
    ],
)
def test_a_transfer_moves_something_between_two_accounts(url: str, row: str) -> None:
    migrate(url)
    store = open_store(url)
    with store.write() as conn:
        conn.execute(text(TWO_ACCOUNTS))
    with pytest.raises(IntegrityError), store.write() as conn:
        conn.execute(text(f"INSERT INTO transfer VALUES {row}"))
    store.close()


@pytest.mark.parametrize("revision", ["0017", "head"])
def test_one_unknown_account_among_many_transfers_refuses_all_of_them(
    url: str, revision: str
) -> None:
    """In the way of the hot writer; with the foreign keys of old, and as they were put back."""
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), "0017")
        conn.execute(text(TWO_ACCOUNTS))
        insert_rows(conn, TRANSFER, [_charge("old", "a", "b")])
        command.upgrade(alembic_config(conn), "head")
        if revision != "head":
            command.downgrade(alembic_config(conn), revision)
    many = [_charge(f"t{number}", "a", "b") for number in range(50)]
    for unknown in (_charge("t", "nobody", "b"), _charge("t", "b", "nobody")):
        with pytest.raises(IntegrityError), store.write() as conn:
            insert_rows(conn, TRANSFER, [*many, unknown])
    with store.write() as conn:
        insert_rows(conn, TRANSFER, many)
    with store.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM transfer")).scalar_one() == 51
    store.close()


def _charge(transfer_id: str, debit: str, credit: str) -> dict[str, Any]:
    return transfer(transfer_id, "charge", debit, credit, 1, org="o", booked_us=1, created_us=1)
