"""`verify` names the first row that breaks a law. Each test breaks one, behind the triggers."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from billing.checks.report import Outcome, Report
from billing.limits.holds import Holds
from billing.spool import Spool
from billing.store.engine import Store
from billing.verify import verify, verify_all
from tests.billing.calls import ADMITTED_US, opened_call
from tests.billing.ledger_parts import open_shards, unlimited
from tests.billing.test_invoices import IN_NOVEMBER_US, IN_OCTOBER_US, book, call, run

NOW_US = IN_NOVEMBER_US


def broken(report: Report) -> dict[str, str]:
    """By the number of the law the first break of each of its checks."""
    found: dict[str, str] = {}
    for check in report.checks:
        if check.outcome is Outcome.BROKEN:
            number = check.name.partition(" ")[0]
            found[number] = f"{found.get(number, '')}{check.detail}\n"
    return found


TRIGGERS = {
    "sqlite": "SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT 'DROP TRIGGER ' || tgname || ' ON ' || tgrelid::regclass "
    "FROM pg_trigger WHERE NOT tgisinternal",
}


def tamper(store: Store, *statements: str) -> None:
    with store.write() as conn:
        for drop in conn.exec_driver_sql(TRIGGERS[conn.dialect.name]).scalars().all():
            conn.execute(text(drop))
        for statement in statements:
            conn.execute(text(statement))


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


@pytest.fixture
def booked(store: Store) -> Store:
    book(store, *(call(store, f"req_{n}", IN_OCTOBER_US) for n in range(3)))
    run(store, "2026-10")
    assert verify(store, now_us=NOW_US).ok
    return store


@pytest.mark.parametrize(
    ("law", "statement", "named"),
    [
        ("I1", "UPDATE account SET debits = debits + 1 WHERE code = 'revenue:usage'", "debits"),
        (
            "I2",
            "UPDATE account SET debits = debits + 1, credits = credits + 1 "
            "WHERE code = 'revenue:usage'",
            "revenue:usage",
        ),
        (
            "I3",
            "UPDATE transfer SET amount_nanousd = amount_nanousd + 1 WHERE rid = 'req_1'",
            "req_1",
        ),
        ("I3", "UPDATE transfer SET rid = 'req_9' WHERE rid = 'req_2'", "req_2:charge:1"),
        (
            "I4",
            "UPDATE usage_event SET amount_nanousd = amount_nanousd + 1 WHERE rid = 'req_1'",
            "req_1",
        ),
        ("I4", "UPDATE usage_event SET output = output + 1000 WHERE rid = 'req_2'", "req_2"),
        (
            "I4",
            "UPDATE price_rate SET nanousd_per_mtok = 2 * nanousd_per_mtok",
            "req_0",
        ),
        ("I5", "UPDATE invoice_line SET amount_nanousd = amount_nanousd + 1 WHERE seq = 1", "inv_"),
        ("I5", "UPDATE invoice SET total_cents = total_cents + 1", "inv_"),
        ("I5", "DELETE FROM invoice_line_transfer WHERE transfer_id = 'req_1:charge:1'", "inv_"),
        ("I9", "UPDATE usage_hour SET output = output + 1", "output stands at 169"),
        ("I9", "DELETE FROM usage_hour", "org_1 proj_1 key_1"),
        ("I9", "UPDATE usage_hour SET hour_us = hour_us - 3600000000", "requests stands at 3"),
        ("I9", "UPDATE usage_day SET requests = requests + 1", "requests stands at 4"),
        ("I9", "DELETE FROM usage_day", "org_1 proj_1 key_1"),
        ("I10", "UPDATE invoice SET status = 'finalised', number = 2", "[2]"),
    ],
)
def test_a_tampered_row_is_named(booked: Store, law: str, statement: str, named: str) -> None:
    tamper(booked, statement)
    report = verify(booked, now_us=NOW_US)
    assert not report.ok
    assert named in broken(report)[law], report.as_text()


def test_an_old_open_hold_is_a_break(booked: Store) -> None:
    book(booked, opened_call("req_9", admitted_us=NOW_US - 2 * 3_600_000_000))
    assert "req_9" in broken(verify(booked, now_us=NOW_US))["I6"]


def test_a_call_that_is_in_the_spool_only_is_a_break(booked: Store, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "gw-1")
    for rid in ("req_0", "req_lost"):
        spool.opened(opened_call(rid, admitted_us=ADMITTED_US))
    spool.close()
    report = verify(booked, now_us=NOW_US, spool_root=tmp_path / "spool")
    assert "req_lost" in broken(report)["I15"]


async def test_redis_that_counts_otherwise_is_a_break(
    booked: Store, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("billing.checks.spending.PAUSE_S", 0.001)
    await open_shards(redis)  # with nothing spent, which is not what the ledger says
    report = await verify_all(booked, now_us=NOW_US, redis=redis)
    assert "org:org_1" in broken(report)["I11"] or "key:key_1" in broken(report)["I11"]


async def test_a_call_that_redis_holds_open_is_no_break(
    store: Store, redis: Redis, tmp_path: Path
) -> None:
    await open_shards(redis)
    opened = opened_call()
    await Holds(redis).admit(opened, unlimited(opened), lease_s=60)
    spool = Spool(tmp_path / "spool", "gw-1")
    spool.opened(opened)
    spool.close()
    report = await verify_all(store, now_us=NOW_US, redis=redis, spool_root=tmp_path / "spool")
    assert report.ok, report.as_text()


def test_the_report_reads_as_text_and_as_json(booked: Store) -> None:
    report = verify(booked, now_us=NOW_US)
    assert report.as_text().endswith("what was checked holds, 1 was not")
    assert report.as_json()["ok"] is True
    assert {check["outcome"] for check in report.as_json()["checks"]} == {"holds", "not checked"}


async def test_an_unprimed_redis_is_not_compared(booked: Store, redis: Redis) -> None:
    report = await verify_all(booked, now_us=NOW_US, redis=redis)
    assert report.ok
    assert report.checks[-1].outcome is Outcome.NOT_CHECKED
