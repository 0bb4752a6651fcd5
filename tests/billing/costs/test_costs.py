"""The cost of goods in the ledger, on both databases: attempts, lives, margins, and their proof."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from billing import queries
from billing.costs import store as costs
from billing.costs.capacity import CapacitySums
from billing.costs.life_writer import LIVES_KEY, LifeEntry, LifeWriter, book_lives
from billing.costs.lifetimes import LifeReport, decode_report, stretch
from billing.costs.margins import MarginBy, margins
from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.posting import charge_for
from billing.prices.versions import load_book
from billing.queries import MovedCall
from billing.tasks import end
from billing.types import MOVED, Attempt, CallStatus, SettledCall, UsageSource, encode
from billing.usage.rollup import DAY_US, HOUR_US
from billing.verify import verify
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from workers.controller import lifetimes as told

S = 1_000_000
NOW_US = ADMITTED_US + HOUR_US
HOUR = ADMITTED_US - ADMITTED_US % HOUR_US
POOL, SPOT, OUTSIDE = "large-reserved", "large-spot", "outside"


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def attempt(pool: str = POOL, busy_us: int = 2 * S, **changes: Any) -> Attempt:
    made = Attempt(
        pool=pool,
        replica=f"{pool}-1",
        started_us=ADMITTED_US,
        ended_us=ADMITTED_US + 3 * S,
        outcome="answered",
        input=44,
        output=56,
        model="tale-large",
        busy_us=busy_us,
        nanousd_per_s=90_000,
    )
    return msgspec.structs.replace(made, **changes)


def bought(outcome: str = "answered", output: int = 56) -> Attempt:
    return attempt(
        OUTSIDE,
        0,
        nanousd_per_s=0,
        output=output,
        outcome=outcome,
        input_nanousd_per_mtok=250_000_000,
        output_nanousd_per_mtok=1_000_000_000,
    )


def settled(store: Store, rid: str, *attempts: Attempt, **changes: Any) -> SettledCall:
    changes = {"pool": attempts[-1].pool if attempts else "", **changes}
    call = settled_call(opened_call(rid), 0, attempts=list(attempts), **changes)
    charge = charge_for(call, load_book(store))
    return msgspec.structs.replace(call, amount_nanousd=charge.amount_nanousd)


def booked(store: Store, *calls: SettledCall) -> None:
    records = [
        Record(0, f"{n}-0", "settled", call.rid, encode(call)) for n, call in enumerate(calls)
    ]
    with store.write() as conn:
        assert not booking.book(conn, booking.read(records, load_book(store), NOW_US)).failures


def lived(store: Store, *reports: LifeReport) -> int:
    entries = [LifeEntry(f"{n}-0", msgspec.json.encode(r)) for n, r in enumerate(reports)]
    with store.write() as conn:
        return book_lives(conn, entries, NOW_US)


def life(until_s: int, busy_s: int, *, pool: str = POOL, **changes: Any) -> LifeReport:
    """It starts for ten seconds before it is warm."""
    made = LifeReport(
        replica=f"{pool}-1",
        pool=pool,
        model="tale-large",
        nanousd_per_s=90_000,
        started_us=ADMITTED_US - 20 * S,
        ready_us=ADMITTED_US - 10 * S,
        until_us=ADMITTED_US + until_s * S,
        busy_us=busy_s * S,
    )
    return msgspec.structs.replace(made, **changes)


def balances(store: Store) -> dict[str, int]:
    found = {row["code"]: row["debits"] - row["credits"] for row in queries.accounts(store)}
    return {code: balance for code, balance in found.items() if ":pool:" in code and balance}


def holds(store: Store) -> None:
    report = verify(store, now_us=NOW_US)
    assert report.ok, report.as_text()


def test_a_call_costs_its_share_and_the_rest_of_the_life_is_what_nobody_used(store: Store) -> None:
    booked(store, settled(store, "req_1", attempt()))
    lived(store, life(30, 5, ended=True))
    assert balances(store) == {
        "cogs:pool:large-reserved": 180_000,
        "unallocated:pool:large-reserved:cold_start": 900_000,
        "unallocated:pool:large-reserved:idle": 35 * 90_000,
        "unallocated:pool:large-reserved:busy": 270_000,
        "payable:pool:large-reserved": -50 * 90_000,
    }
    (margin,) = margins(store, HOUR, HOUR + HOUR_US)
    assert (margin.cost_nanousd, margin.bill_nanousd) == (180_000, 4_500_000)
    assert margin.cost_nanousd + margin.unallocated_nanousd == margin.bill_nanousd
    assert margin.unrecorded_nanousd == 270_000
    holds(store)


def test_g9_wasted_attempts_stand_in_our_cost_and_the_customer_pays_once(store: Store) -> None:
    lost = attempt(SPOT, 500_000, outcome="cut", output=3, nanousd_per_s=7_000)
    booked(store, settled(store, "req_1", lost, attempt()))
    lived(store, life(30, 2, ended=True))
    lived(store, life(30, 1, pool=SPOT, nanousd_per_s=7_000, ended=True))
    found = balances(store)
    assert found["cogs:pool:large-reserved"] == 180_000
    assert found["unallocated:pool:large-spot:wasted"] == 3_500
    assert found["unallocated:pool:large-spot:busy"] == 3_500
    assert "cogs:pool:large-spot" not in found
    call = queries.call_by_rid(store, "req_1")
    assert call is not None and call.usage.cost_nanousd == 180_000
    assert [(a["cost_nanousd"], bool(a["served"])) for a in call.attempts] == [
        (3_500, False),
        (180_000, True),
    ]
    assert [t["kind"] for t in call.transfers] == ["charge"]
    holds(store)


def test_a_call_that_failed_is_free_and_all_its_attempts_are_wasted(store: Store) -> None:
    failed = settled(
        store,
        "req_1",
        attempt(outcome="cut"),
        attempt(SPOT, outcome="cut"),
        status=CallStatus.FAILED,
        input=0,
        output=0,
    )
    booked(store, failed)
    found = balances(store)
    assert not any(code.startswith("cogs") for code in found)
    assert found["unallocated:pool:large-reserved:wasted"] == 180_000
    assert found["unallocated:pool:large-spot:wasted"] == 180_000
    holds(store)


def test_tokens_bought_outside_are_a_bill_and_wasted_ones_too(store: Store) -> None:
    booked(store, settled(store, "req_1", bought("cut", output=2), bought()))
    assert balances(store) == {
        "cogs:pool:outside": 44 * 250 + 56 * 1000,
        "unallocated:pool:outside:wasted": 44 * 250 + 2 * 1000,
        "payable:pool:outside": -(88 * 250 + 58 * 1000),
    }
    (row,) = margins(store, HOUR, HOUR + HOUR_US, [MarginBy.POOL])
    assert row.group == {"pool": "outside"} and row.unrecorded_nanousd == 0
    assert row.bill_nanousd == 88 * 250 + 58 * 1000
    holds(store)


def test_what_was_bought_stands_by_day_and_key_of_the_provider(store: Store) -> None:
    one, other = (
        msgspec.structs.replace(bought(), replica=f"external:{OUTSIDE}/{key}") for key in "AB"
    )
    lost = msgspec.structs.replace(one, outcome="cut", output=2)
    estimate = settled(store, "req_1", other, source=UsageSource.ESTIMATED)
    booked(store, estimate, settled(store, "req_2", attempt()))
    booked(store, settled(store, "req_1", lost, other, output=57), estimate)
    booked(store, settled(store, "req_3", one, ended_us=NOW_US))
    day_us = HOUR - HOUR % DAY_US
    with store.read() as conn:
        rows = costs.bought(conn, day_us, day_us + 2 * DAY_US)
        assert costs.bought(conn, day_us - DAY_US, day_us) == {}
    each = 44 * 250 + 56 * 1000
    assert rows == {
        (OUTSIDE, one.replica): each + 44 * 250 + 2 * 1000,
        (OUTSIDE, other.replica): each,
    }
    holds(store)


def test_a_better_record_takes_back_what_the_estimate_cost(store: Store) -> None:
    estimate = settled(
        store, "req_1", attempt(busy_us=S, outcome="running"), source=UsageSource.ESTIMATED
    )
    booked(store, estimate)
    assert balances(store)["cogs:pool:large-reserved"] == 90_000
    lost = attempt(SPOT, S, outcome="cut")
    exact = settled(store, "req_1", lost, bought(), output=57)
    booked(store, exact, estimate, exact)
    assert balances(store) == {
        "unallocated:pool:large-spot:busy": -90_000,
        "unallocated:pool:large-spot:wasted": 90_000,
        "cogs:pool:outside": 67_000,
        "payable:pool:outside": -67_000,
    }
    holds(store)


def test_a_better_record_in_the_same_batch_counts_in_the_hour_of_the_first(store: Store) -> None:
    lost = settled(store, "req_1", source=UsageSource.ESTIMATED, input=0, output=0)
    tried = attempt(outcome="cut", input=0, output=0)
    later = {"input": 0, "output": 0, "ended_us": ADMITTED_US + HOUR_US}
    booked(store, lost, settled(store, "req_1", tried, **later))
    (row,) = margins(store, HOUR, HOUR + HOUR_US)
    assert row.capacity is not None and row.capacity.wasted_nanousd == 180_000
    holds(store)


def test_g9_litellm_39455_retries_are_one_call_and_one_charge_in_every_sum(store: Store) -> None:
    """litellm #39455: retries inflate the counts."""
    busy = attempt(outcome="saturated", busy_us=0, input=0, output=0)
    booked(store, settled(store, "req_1", busy, attempt(SPOT, outcome="cut"), attempt()))
    (row,) = margins(store, HOUR, HOUR + HOUR_US, [MarginBy.ORGANIZATION])
    charged = 44 * 5 + 56 * 20 + 1  # nano-USD: 280.00056 of them are rounded to the even one
    assert (row.requests, row.revenue_nanousd, row.cost_nanousd) == (1, charged, 180_000)
    assert len([t for t in queries.recent_transfers(store, 9) if t["kind"] == "charge"]) == 1


def test_a_life_is_billed_up_to_its_last_report_and_each_report_once(store: Store) -> None:
    assert lived(store, life(10, 1), life(10, 1)) == 1
    assert lived(store, life(10, 1), life(70, 9)) == 1
    assert balances(store)["payable:pool:large-reserved"] == -90 * 90_000
    late = life(40, 2, nanousd_per_s=30_000)  # it was cheaper from 10 to 40
    assert lived(store, late) == 1
    assert balances(store)["payable:pool:large-reserved"] == -(60 * 90_000 + 30 * 30_000)
    holds(store)


def test_a_life_is_billed_to_the_hours_in_which_it_is_reported(store: Store) -> None:
    midnight_us = ADMITTED_US - ADMITTED_US % DAY_US + DAY_US
    lived(store, life(0, 0), life(0, 1, until_us=midnight_us), life(0, 1, until_us=midnight_us + S))
    first, second = margins(store, 0, midnight_us + DAY_US, [MarginBy.DAY])
    assert (first.group["day"], second.group["day"]) == (midnight_us - DAY_US, midnight_us)
    assert first.bill_nanousd == 20 * 90_000
    whole_us = midnight_us + S - (ADMITTED_US - 20 * S)
    assert first.bill_nanousd + second.bill_nanousd == whole_us * 90_000 // S
    holds(store)


def test_margins_of_every_grouping_add_up_to_the_fleet(store: Store) -> None:
    booked(
        store,
        settled(store, "req_1", attempt()),
        settled(store, "req_2", attempt(SPOT, S, nanousd_per_s=7_000)),
        msgspec.structs.replace(settled(store, "req_3", bought()), org="org_2"),
    )
    lived(store, life(30, 5), life(60, 6, pool=SPOT, nanousd_per_s=7_000))
    (fleet,) = margins(store, HOUR, HOUR + HOUR_US)
    for groups in (
        [MarginBy.ORGANIZATION],
        [MarginBy.MODEL],
        [MarginBy.POOL, MarginBy.DAY],
        [MarginBy.DAY, MarginBy.ORGANIZATION, MarginBy.MODEL],
    ):
        rows = margins(store, HOUR, HOUR + HOUR_US, groups)
        assert sum(row.requests for row in rows) == fleet.requests == 3
        assert sum(row.revenue_nanousd for row in rows) == fleet.revenue_nanousd
        assert sum(row.cost_nanousd for row in rows) == fleet.cost_nanousd
        if MarginBy.ORGANIZATION not in groups:
            assert sum(row.bill_nanousd for row in rows) == fleet.bill_nanousd
            assert sum(row.unallocated_nanousd for row in rows) == fleet.unallocated_nanousd
        else:
            assert all(row.capacity is None for row in rows)
    assert margins(store, 0, HOUR_US)[0].capacity == CapacitySums()
    holds(store)


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        ("C1", "UPDATE account SET debits = debits + 1 WHERE code LIKE 'cogs:%'"),
        ("C2", "UPDATE capacity_hour SET idle_nanousd = idle_nanousd + 1"),
        ("C2", "UPDATE capacity_hour SET wasted_nanousd = wasted_nanousd + 1"),
        ("C5", "UPDATE bought_day SET bought_nanousd = bought_nanousd + 1"),
        ("C5", "DELETE FROM bought_day"),
        ("C3", "UPDATE attempt SET cost_nanousd = cost_nanousd + 1 WHERE served"),
        ("C3", "UPDATE attempt SET busy_us = busy_us + 99 WHERE served"),
        ("C4", "UPDATE attempt SET busy_us = 10000000 WHERE served"),
    ],
)
def test_verify_names_the_first_row_that_is_wrong(store: Store, check: str, wrong: str) -> None:
    tried = attempt(SPOT, S, outcome="cut"), bought("cut"), attempt()
    booked(store, settled(store, "req_1", *tried))
    lived(store, life(30, 5, ended=True))
    with store.write() as conn:
        conn.execute(text(wrong))
    report = verify(store, now_us=NOW_US)
    (found,) = [c for c in report.checks if c.name.startswith(check)]
    assert found.outcome == "broken" and found.detail


def test_spares_and_what_nobody_takes_of_nodes_have_lines_of_their_own(store: Store) -> None:
    changes = {"model": "", "ready_us": ADMITTED_US - 20 * S, "ended": True}
    lived(
        store,
        life(30, 5, ended=True),
        life(10, 0, pool="spares", **changes | {"nanousd_per_s": 1_000}),
        life(10, 0, pool="node:base", **changes),
    )
    stands = {row["code"]: row["debits"] - row["credits"] for row in queries.accounts(store)}
    assert stands["unallocated:spares"] == 30 * 1_000
    assert stands["payable:pool:spares"] == -30 * 1_000
    assert stands["unallocated:pool:node:base:idle"] == 30 * 90_000
    rows = margins(store, HOUR - HOUR_US, HOUR + HOUR_US, [MarginBy.POOL])
    bills = {row.group["pool"]: row.bill_nanousd for row in rows}
    assert bills == {POOL: 4_500_000, "spares": 30_000, "node:base": 2_700_000}
    holds(store)


def test_moves_are_found_newest_first(store: Store) -> None:
    moved = attempt(
        SPOT, S, outcome=MOVED, started_us=ADMITTED_US + S, ended_us=ADMITTED_US + 2 * S
    )
    earlier = msgspec.structs.replace(moved, started_us=ADMITTED_US, ended_us=ADMITTED_US + 9)
    booked(
        store,
        settled(store, "req_1", earlier, attempt()),
        settled(store, "req_2", attempt(SPOT, S, outcome="cut"), moved, attempt()),
    )
    assert queries.moves(store, 0, NOW_US, 9) == [
        MovedCall("req_2", SPOT, ADMITTED_US + 2 * S),
        MovedCall("req_1", SPOT, ADMITTED_US + 9),
    ]
    assert len(queries.moves(store, 0, NOW_US, 1)) == 1
    assert queries.moves(store, ADMITTED_US + S + 1, NOW_US, 9) == []


@pytest.mark.parametrize(
    "change", ["UPDATE life_report SET busy_us = 1", "DELETE FROM life_report"]
)
def test_a_report_of_a_life_never_changes(store: Store, change: str) -> None:
    lived(store, life(30, 5))
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text(change))


async def test_lives_come_through_the_stream_whoever_is_killed(
    redis: Redis, sqlite_store: Store
) -> None:
    writer = LifeWriter(redis, sqlite_store, interval_s=0.01, now=time.time)
    sent = [told.LifeReport(**msgspec.structs.asdict(life(until_s, 1))) for until_s in (5, 10, 15)]
    for report in sent:
        await redis.xadd(LIVES_KEY, {"p": msgspec.json.encode(report)})
    entries = [LifeEntry(e.decode(), f[b"p"]) for e, f in await redis.xrange(LIVES_KEY)]
    with sqlite_store.write() as conn:  # a writer that was killed before it took them out
        assert book_lives(conn, entries, NOW_US) == 3
    await redis.xadd(LIVES_KEY, {"p": b"{}"})
    assert await writer.turn() == 4
    assert await redis.xlen(LIVES_KEY) == 0 == await writer.turn()
    assert balances(sqlite_store)["payable:pool:large-reserved"] == -35 * 90_000
    with sqlite_store.read() as conn:
        reasons = conn.execute(text("SELECT reason FROM dead_letter")).scalars().all()
    assert reasons == ["malformed_life"]


async def test_an_outage_is_waited_out(redis: Redis, sqlite_store: Store) -> None:
    writer = LifeWriter(redis, sqlite_store, interval_s=0.01, now=time.time)
    await redis.set(LIVES_KEY, "no stream")  # every read of it fails
    running = asyncio.create_task(writer.run())
    await asyncio.sleep(0.05)
    await redis.delete(LIVES_KEY)
    await redis.xadd(LIVES_KEY, {"p": msgspec.json.encode(life(5, 1))})
    async with asyncio.timeout(30):
        while await redis.xlen(LIVES_KEY):  # noqa: ASYNC110 - a stream has no event for its end
            await asyncio.sleep(0.01)
    await end(running)
    assert balances(sqlite_store)["payable:pool:large-reserved"] == -25 * 90_000


def test_what_workers_say_is_what_the_ledger_reads() -> None:
    """The two packages do not know each other: their words are held together here. What only the
    next leader reads comes last."""
    theirs = told.LifeReport(**msgspec.structs.asdict(life(5, 1, ended=True)))
    assert decode_report(msgspec.json.encode(theirs)) == life(5, 1, ended=True)
    assert told.LifeReport.__struct_fields__ == (*LifeReport.__struct_fields__, "answered_us")
    assert told.LIVES_KEY == LIVES_KEY


@pytest.mark.parametrize(
    "change",
    [
        {"until_us": 1},
        {"busy_us": -1},
        {"nanousd_per_s": -1},
        {"v": 2},
        {"nanousd_per_s": 2**52, "started_us": 0},
    ],
)
def test_a_report_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    wrong = msgspec.json.encode(msgspec.to_builtins(life(5, 1)) | change)
    with pytest.raises(msgspec.ValidationError):
        decode_report(wrong)


def test_a_replica_never_computed_longer_than_it_was_warm() -> None:
    """A replica that counts too much takes nothing from the start that came before."""
    report = LifeReport(
        replica="r",
        pool="a",
        model="m",
        nanousd_per_s=1_000_000,
        started_us=0,
        ready_us=60_000_000,
        until_us=100_000_000,
        busy_us=90_000_000,
    )
    bill = stretch(None, report)
    assert (bill.busy_us, bill.busy_nanousd) == (40_000_000, 40_000_000)
    assert (bill.cold_start_nanousd, bill.idle_nanousd) == (60_000_000, 0)
