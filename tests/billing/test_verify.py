"""`verify` names the first row that breaks a law. Each test breaks one, behind the triggers."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import msgspec
import pytest
from redis.asyncio import Redis
from sqlalchemy import event, text

from billing.db.engine import Store
from billing.ledger.report import Outcome, Report
from billing.limits import laws as spending
from billing.limits.holds import Holds
from billing.limits.keys import call_key, shard_of
from billing.settings import LedgerSettings
from billing.spool.keeper import SpoolKeeper
from billing.spool.segments import segment_path
from billing.spool.spool import Spool
from billing.types import OpenedCall, SettledCall, UsageSource
from billing.usage.call_laws import Sample
from billing.verify import progress_on, verify, verify_all
from tests.billing.calls import ADMITTED_US, opened_call
from tests.billing.invoices.test_invoices import IN_NOVEMBER_US, IN_OCTOBER_US, book, call, run
from tests.billing.ledger_parts import make_writer, open_shards, unlimited, writing

NOW_US = IN_NOVEMBER_US
ROOT = Path(__file__).parents[2]


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
    """Three calls on an invoice; one of them, req_2, was corrected."""
    book(store, call(store, "req_2", IN_OCTOBER_US, source=UsageSource.ESTIMATED, output=9))
    book(store, *(call(store, f"req_{n}", IN_OCTOBER_US) for n in range(3)))
    run(store, "2026-10")
    return store


def test_what_was_booked_and_invoiced_breaks_no_law(booked: Store) -> None:
    report = verify(booked, now_us=NOW_US)
    assert report.ok, report.as_text()


REVENUE = "code = 'revenue:usage'"
CHARGE = "transfer_id = 'req_1:charge:1'"
REVERSAL = "transfer_id = 'req_2:reversal:1'"
SHIFT = "amount_nanousd = amount_nanousd + 1"
DEARER = "request_nanousd = request_nanousd + 1"
OTHER_ORG = "INSERT INTO account VALUES ('org:org_2:unbilled', 'org_2', 'USD', 0, 0)"
OTHER = "debit_account = 'org:org_2:unbilled', org = 'org_2'"
HOUR = "hour_us = hour_us - 3600000000"
SUMS = ("usage_hour", "usage_day", "usage_org_day")
LETTER = "INSERT INTO dead_letter (shard, entry, rid, reason, detail, payload, created_us) VALUES"
PAYMENT = (
    "source, invoice_id, payment_id, org, external_id, amount_cents, currency, received_us, note,"
    " created_by, created_us"
)
OF_PAYMENT = "'p', 'org_1', 'w', 1, 'USD', 1, '', 'a', 1"
NOTE = (
    "note_id, invoice_id, org, series, number, reason, net_cents, tax_cents, created_by, created_us"
)
TAX = "category, rate_ppm, reason_code, note, account, base_cents, tax_cents"
OF_CHARGES = ("I5 invoice_lines", "I9 charge_sums")
RERATED = ("I4 amounts_rerate", *OF_CHARGES)

BREAKS: list[tuple[str, str, list[str]]] = [
    # what is named, what was tampered with, every check that must see it
    (
        "debits",
        f"UPDATE account SET debits = debits + 1 WHERE {REVENUE}",
        ["I1 debits_equal_credits", "I2 account_totals"],
    ),
    (
        "req_1:charge:1 moves EUR of org",
        f"UPDATE transfer SET currency = 'EUR' WHERE {CHARGE}",
        ["I1 one_currency"],
    ),
    (
        "revenue:usage: stands",
        f"UPDATE account SET debits = debits + 1, credits = credits + 1 WHERE {REVENUE}",
        ["I2 account_totals"],
    ),
    (
        "req_1 record 1",
        f"UPDATE transfer SET {SHIFT} WHERE {CHARGE}",
        ["I2 account_totals", "I3 one_charge_per_call", "I4 nets_are_exact", *OF_CHARGES],
    ),
    (
        "req_1 record 1",
        f"{OTHER_ORG}; UPDATE transfer SET {OTHER} WHERE {CHARGE}",
        ["I2 account_totals", "I3 one_charge_per_call", *OF_CHARGES],
    ),
    (
        "req_1:charge:1 stands for no record",
        f"UPDATE transfer SET rid = 'req_0' WHERE {CHARGE}",
        ["I3 one_charge_per_call", "I4 nets_are_exact", *OF_CHARGES],
    ),
    (
        "req_1:charge:1 stands for no record",
        f"UPDATE transfer SET rid = NULL WHERE {CHARGE}",
        ["I3 one_charge_per_call", "I4 nets_are_exact", *OF_CHARGES],
    ),
    (
        "req_2:reversal:1",
        f"UPDATE transfer SET reverses_id = NULL WHERE {REVERSAL}",
        ["I3 reversals_linked"],
    ),
    (
        "req_2:reversal:1",
        f"UPDATE transfer SET reverses_id = 'req_0:charge:1' WHERE {REVERSAL}",
        ["I3 reversals_linked"],
    ),
    (
        "req_1:charge:1",
        f"UPDATE transfer SET reverses_id = 'req_0:charge:1' WHERE {CHARGE}",
        ["I3 reversals_linked"],
    ),
    (
        "req_2:reversal:1 is not",
        f"UPDATE transfer SET {SHIFT} WHERE {REVERSAL}",
        ["I2 account_totals", "I3 reversals_linked", "I4 nets_are_exact", *OF_CHARGES],
    ),
    (
        "req_1: best record",
        f"UPDATE usage_event SET {SHIFT}, {DEARER} WHERE rid = 'req_1'",
        [*("I3 one_charge_per_call", "I4 nets_are_exact", *RERATED), "I9 usage_hours"],
    ),
    (
        "req_1: amount",
        "UPDATE usage_event SET minimum_nanousd = 5 WHERE rid = 'req_1'",
        ["I4 parts_add_up", *RERATED, "I9 usage_hours"],
    ),
    (
        "req_2: amount",
        "UPDATE usage_correction SET minimum_nanousd = 5",
        ["I4 parts_add_up", *RERATED, "I9 usage_hours"],
    ),
    (
        "req_1: booked",
        "UPDATE usage_event SET output = output + 1000 WHERE rid = 'req_1'",
        [*RERATED, "I9 usage_hours"],
    ),
    (
        "req_0: booked",
        "UPDATE price_rate SET nanousd_per_mtok = 2 * nanousd_per_mtok",
        ["I4 amounts_rerate"],
    ),
    (
        "req_0: ",
        "UPDATE usage_event SET price_version = 'pv_9' WHERE rid = 'req_0'",
        [*RERATED],
    ),
    (
        "inv_",
        f"UPDATE invoice_line SET {SHIFT} WHERE seq = 1",
        ["I5 invoice_lines", "I5 invoice_totals"],
    ),
    ("inv_", "UPDATE invoice SET total_cents = total_cents + 1", ["I5 invoice_totals"]),
    (
        "tax 1: lines 0, base 5",
        f"INSERT INTO invoice_tax (invoice_id, place, {TAX}) "
        "SELECT invoice_id, 1, 'S', 190000, '', '', 'tax:s:DE', 5, 1 FROM invoice",
        ["I5 invoice_taxes"],
    ),
    (
        "lines 0, bases 0, taxes 0, net 5, tax 1",
        f"INSERT INTO credit_note ({NOTE}) "
        "SELECT 'crn_1', invoice_id, 'org_1', 'CN', 1, '', 5, 1, '', 1 FROM invoice",
        ["I5 credit_notes", "P2 statements"],
    ),
    (
        "payable:provider:acme: stands at -5, its bills give 0",
        "INSERT INTO account VALUES ('payable:provider:acme', NULL, 'USD', 0, 5); "
        "INSERT INTO account VALUES ('variance:provider:acme', NULL, 'USD', 5, 0)",
        ["B1 bills_of_providers", "I2 account_totals"],
    ),
    ("inv_", "UPDATE invoice_cut SET upto_us = upto_us - 1", ["I5 invoice_lines"]),
    (
        "both have charges of",
        "INSERT INTO invoice (invoice_id, org, period, status, series, currency, period_start_us,"
        " period_end_us, subtotal_nanousd, rounding_nanousd, total_cents, computed_us)"
        " SELECT 'inv', org, '2026-11', 'draft', 'S', 'USD', 1, 2, 0, 0, 0, 1 FROM invoice; "
        "INSERT INTO invoice_cut SELECT 'inv', service_start_us, after_us, upto_us"
        " FROM invoice_cut",
        ["I5 invoice_lines", "I9 charge_sums"],
    ),
    (
        "1:discount: it is not booked",
        "INSERT INTO invoice (invoice_id, org, period, status, number, series, currency,"
        " period_start_us, period_end_us, subtotal_nanousd, rounding_nanousd, total_cents,"
        " computed_us) SELECT 'inv', org, '2026-11', 'finalised', 1, 'S', 'USD', 1, 2, 0, 0, 0, 1"
        " FROM invoice; "
        "INSERT INTO invoice_line (invoice_id, seq, kind, project, model, tier, batch, component,"
        " price_version, quantity, unit_price_nanousd_per_mtok, amount_nanousd, service_start_us,"
        " service_end_us) SELECT 'inv', 1, 'discount', '', '', '', batch, '', '', 0, 0, 0,"
        " service_start_us, service_end_us FROM invoice_line WHERE seq = 1",
        ["I5 invoice_terms"],
    ),
    (
        "org_1 adjustment proj_1",
        "UPDATE charge_sum SET transfers = transfers + 1",
        ["I9 charge_sums"],
    ),
    ("stands at 0", "DELETE FROM charge_sum", ["I9 charge_sums"]),
    (
        "req_1 is open and booked",
        "INSERT INTO open_hold VALUES ('req_1', 'o', 'p', 'k', 1, '202610', 9e18, '', NULL)",
        ["I6 no_stale_hold"],
    ),
    (
        "output stands at 169",
        "; ".join(f"UPDATE {sums} SET output = output + 1" for sums in SUMS),
        ["I9 usage_hours"],
    ),
    (
        "org_1 proj_1 key_1",
        "; ".join(f"DELETE FROM {sums}" for sums in SUMS),
        ["I9 usage_hours"],
    ),
    ("requests stands at 3", f"UPDATE usage_hour SET {HOUR}", ["I9 usage_hours"]),
    (
        "requests stands at 4",
        "; ".join(f"UPDATE {sums} SET requests = requests + 1" for sums in SUMS[1:]),
        ["I9 usage_days"],
    ),
    (
        "org_1 proj_1 key_1",
        "; ".join(f"DELETE FROM {sums}" for sums in SUMS[1:]),
        ["I9 usage_days"],
    ),
    ("org_1 tale-large", "UPDATE usage_org_day SET requests = 4", ["I9 usage_org_days"]),
    ("org_1 tale-large", "DELETE FROM usage_org_day", ["I9 usage_org_days"]),
    ("[2]", "UPDATE invoice SET status = 'finalised', number = 2", ["I10 invoice_numbers"]),
    (
        "org:org_1:on_account",
        f"INSERT INTO payment ({PAYMENT}) VALUES ('hand', NULL, {OF_PAYMENT})",
        ["P1 payments", "P2 statements"],
    ),
    (
        "1 credits have put 1 cents on account, not 0",
        f"INSERT INTO payment ({PAYMENT}) SELECT 'credit_note', invoice_id, {OF_PAYMENT}"
        " FROM invoice",
        ["P1 payments", "P5 credits"],
    ),
    (
        "top_1: 50000000 came, granted ('org_1', 'paid', 5)",
        "INSERT INTO credit_grant (grant_id, org, category, amount_nanousd, priority, effective_us,"
        " models, created_us, created_by, note)"
        " VALUES ('top_1', 'org_1', 'paid', 5, 50, 1, '[]', 1, 'a', ''); "
        "INSERT INTO top_up VALUES ('top_1', 'org_1', 'w', 'hand', 5, 'USD', 1, '', 'RC', 1, 'a',"
        " 1)",
        ["P4 top_ups"],
    ),
    (
        "2020-01: closed with 1 transfers of 5, and has 0 of 0",
        "INSERT INTO closed_period VALUES ('2020-01', 1, 'a', 1); "
        "INSERT INTO closed_period_total VALUES ('2020-01', 1, 5)",
        ["P3 closed_periods"],
    ),
    (
        "req_1: conflict: twice",
        f"{LETTER} (0, '1-1', 'req_1', 'conflict', 'twice', '', 1)",
        ["no_dead_letter"],
    ),
]


@pytest.mark.parametrize(("named", "tampering", "checks"), BREAKS)
def test_tampered_row_is_named_by_the_law_it_breaks(
    booked: Store, named: str, tampering: str, checks: list[str]
) -> None:
    tamper(booked, *tampering.split("; "))
    report = verify(booked, now_us=NOW_US)
    found = {check.name: check.detail for check in report.checks if check.outcome is Outcome.BROKEN}
    assert sorted(found) == sorted(checks), report.as_text()
    assert any(named in detail for detail in found.values()), found


ELSEWHERE = ("billing/credits/laws", "billing/budgets/laws", "billing/costs/laws")
"""Broken by hand in tests of their own."""


def test_every_check_of_sql_has_a_row_that_breaks_it(booked: Store) -> None:
    in_sql = {c.name for c in verify(booked, now_us=NOW_US).checks if c.outcome is Outcome.HOLDS}
    others = "".join((ROOT / f"{module}.py").read_text() for module in ELSEWHERE)
    assert {name for name in in_sql if name not in others} == {
        name for *_, checks in BREAKS for name in checks
    }


def test_an_old_open_hold_is_a_break(booked: Store) -> None:
    book(booked, opened_call("req_9", admitted_us=NOW_US - 2 * 3_600_000_000))
    assert "req_9" in broken(verify(booked, now_us=NOW_US))["I6"]


@pytest.fixture
def spooled(booked: Store, tmp_path: Path) -> Path:
    """The spool of a gateway that is gone, with the end of every call that is booked."""
    spool = Spool(tmp_path / "spool", "gw-1")
    for n in range(3):
        spool.opened(opened_call(f"req_{n}", admitted_us=IN_OCTOBER_US))
        spool.closed(call(booked, f"req_{n}", IN_OCTOBER_US))
    spool.close()
    assert verify(booked, now_us=NOW_US, spool_root=tmp_path / "spool").ok
    return tmp_path / "spool"


def spool_more(root: Path, *calls: SettledCall | OpenedCall) -> None:
    spool = Spool(root, "gw-1")
    for one in calls:
        spool.closed(one) if isinstance(one, SettledCall) else spool.opened(one)
    spool.close()


def test_a_call_that_is_in_the_spool_only_is_a_break(booked: Store, spooled: Path) -> None:
    spool_more(spooled, opened_call("req_lost", admitted_us=ADMITTED_US))
    report = verify(booked, now_us=NOW_US, spool_root=spooled)
    assert broken(report).keys() == {"I15"}
    assert "req_lost" in broken(report)["I15"]


def test_a_usage_event_that_is_gone_is_missed(booked: Store, spooled: Path) -> None:
    tamper(booked, *(f"DELETE FROM {table} WHERE rid = 'req_1'" for table in ("usage_event",)))
    assert "req_1" in broken(verify(booked, now_us=NOW_US, spool_root=spooled))["I15"]


def test_a_spool_that_knows_better_than_sql_is_a_break(booked: Store, spooled: Path) -> None:
    book(booked, call(booked, "req_5", ADMITTED_US, source=UsageSource.ESTIMATED, output=1))
    spool_more(spooled, call(booked, "req_5", ADMITTED_US))
    report = verify(booked, now_us=NOW_US, spool_root=spooled)
    assert broken(report) == {"I8": "req_5: its spool tells a better end than the one booked\n"}
    assert verify(booked, now_us=ADMITTED_US, spool_root=spooled).ok  # it may be on its way


def test_a_spool_that_tells_another_end_is_a_break(booked: Store, spooled: Path) -> None:
    spool_more(spooled, call(booked, "req_1", IN_OCTOBER_US, output=1))
    report = verify(booked, now_us=IN_OCTOBER_US, spool_root=spooled)
    assert broken(report) == {"I8": "req_1: its spool tells another end than was booked\n"}


async def test_a_confirmed_segment_that_changed_is_a_break(booked: Store, spooled: Path) -> None:
    spool_more(spooled)  # so that the first segment is finished
    keeper = SpoolKeeper(spooled, booked, LedgerSettings(), now=lambda: NOW_US / 1e6)
    await keeper.turn()
    segment = segment_path(spooled, "gw-1", 1)
    segment.write_bytes(segment.read_bytes() + b"\n")
    report = await verify_all(booked, now_us=NOW_US, spool_root=spooled)
    assert str(segment) in broken(report)["spools_unchanged"]


@pytest.mark.usefixtures("at_once")
async def test_redis_that_counts_otherwise_is_a_break(booked: Store, redis: Redis) -> None:
    await open_shards(redis)  # with nothing spent, which is not what the ledger says
    report = await verify_all(booked, now_us=NOW_US, redis=redis)
    assert broken(report).keys() == {"I11"}
    assert "key:key_1" in broken(report)["I11"]


@pytest.fixture
def nobody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is settled will not be booked, so that there is nothing to wait for."""
    monkeypatch.setattr(spending, "BEHIND_MAX_S", 0.1)


@pytest.mark.usefixtures("at_once")
async def test_held_money_that_no_open_call_holds_is_a_break(
    store: Store, redis: Redis, nobody_writes: None
) -> None:
    await open_shards(redis)
    opened = opened_call(hold_nanousd=700)
    await Holds(redis).admit(opened, unlimited(opened), lease_s=60)
    assert (await verify_all(store, now_us=ADMITTED_US, redis=redis)).ok
    await redis.delete(call_key(shard_of(opened.org), opened.rid))
    report = await verify_all(store, now_us=ADMITTED_US, redis=redis)
    assert broken(report).keys() == {"I11"}
    assert "Redis counts 700 as held" in broken(report)["I11"]


async def test_calls_that_go_on_while_verify_looks_are_no_break(store: Store, redis: Redis) -> None:
    """Redis counts a call at once, SQL when the writer has it."""
    await open_shards(redis)
    holds = Holds(redis)
    ended = call(store, "req_0", ADMITTED_US)
    async with writing(make_writer(redis, store)):
        verifying = asyncio.create_task(verify_all(store, now_us=ADMITTED_US, redis=redis))
        number = 0
        while number < 3 or (number < 500 and not verifying.done()):
            opened = opened_call(f"req_{number}")
            await holds.admit(opened, unlimited(opened), lease_s=60)
            await holds.settle(msgspec.structs.replace(ended, rid=opened.rid))
            number += 1
        report = await verifying
    assert report.ok, report.as_text()


async def test_a_call_that_redis_holds_open_is_no_break(
    store: Store, redis: Redis, tmp_path: Path, nobody_writes: None
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
    unchecked = sum(check.outcome is Outcome.NOT_CHECKED for check in report.checks)
    assert report.as_text().endswith(f"what was checked holds, {unchecked} was not")
    assert report.ok
    assert {check.outcome for check in report.checks} == {"holds", "not checked"}


async def test_an_unprimed_redis_is_not_compared(booked: Store, redis: Redis) -> None:
    report = await verify_all(booked, now_us=NOW_US, redis=redis)
    assert report.ok
    in_redis = [c.outcome for c in report.checks if c.name.startswith("I11 ")]
    assert in_redis and set(in_redis) == {Outcome.NOT_CHECKED}


def test_calls_are_looked_at_in_parts_that_hold_every_one(
    booked: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("billing.usage.call_laws.PART_CALLS", 2)
    tamper(booked, "UPDATE transfer SET rid = 'zzz' WHERE rid = 'req_2' AND kind = 'charge'")
    told: list[tuple[str, int, int]] = []
    report = verify(booked, now_us=NOW_US, progress=lambda *so_far: told.append(so_far))
    assert "req_2:charge:1 stands for no record" in broken(report)["I3"]
    assert [so_far for so_far in told if so_far[0] == "calls"] == [("calls", 0, 4), ("calls", 2, 4)]


def test_no_law_keeps_a_snapshot_for_another(booked: Store) -> None:
    """So that a ledger of any size can be checked while it is written to."""
    asked: list[str] = [""]
    event.listen(booked.engine, "begin", lambda _: asked.append(""))

    def note(_conn: object, _cursor: object, statement: str, *_rest: object) -> None:
        asked[-1] += statement

    event.listen(booked.engine, "before_cursor_execute", note)
    verify(booked, now_us=NOW_US)
    apart = ("FROM account", "dead_letter", "invoice_line ", "open_hold", "usage_hour")
    assert all(any(name in snapshot for snapshot in asked) for name in apart)
    assert all(sum(name in snapshot for name in apart) <= 1 for snapshot in asked)


def test_a_sample_is_drawn_by_its_seed(booked: Store) -> None:
    book(booked, *(call(booked, f"req_{n}", IN_OCTOBER_US) for n in range(10, 210)))

    def rated(records: int, seed: int) -> int:
        report = verify(booked, now_us=NOW_US, sample=Sample(records, seed))
        assert report.ok, report.as_text()
        return next(c.checked for c in report.checks if c.name == "I4 amounts_rerate")

    assert (rated(10**6, 1), rated(0, 1)) == (204, 0)
    by_seed = [rated(50, seed) for seed in range(0, 4_000_000, 400_001)]
    assert by_seed == [rated(50, seed) for seed in range(0, 4_000_000, 400_001)]
    assert len(set(by_seed)) > 1 and all(20 <= found <= 90 for found in by_seed)


def test_progress_is_progress_on_a_terminal_once_it_takes_a_while() -> None:
    now, out = iter([0.0, 1.0, 3.5]), io.StringIO()
    tell = progress_on(out, lambda: next(now))
    tell("calls", 0, 9)
    assert out.getvalue() == ""
    tell("calls", 5_000, 9_000)
    tell("", 0, 0)
    assert out.getvalue() == "\r\x1b[Kchecking calls 5,000 of 9,000\r\x1b[K"
