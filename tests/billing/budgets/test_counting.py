"""What counts against budgets: the sums of the events, on both databases, and alerts once."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis
from sqlalchemy import insert, select, update

from billing.budgets import store as rows
from billing.budgets.budget import EACH_USER, Budget, digest_of, share_of
from billing.budgets.windows import Calendar, Ever, Rolling, Unit, Window
from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.report import Outcome, Report
from billing.limits.holds import Holds
from billing.limits.spending import purses_by_shard
from billing.limits.types import Admitted, SettleState, purse_of
from billing.prices.rating import amounts_of_book
from billing.prices.versions import load_book
from billing.types import BudgetShare, OpenedCall, SettledCall, UsageSource, encode, utc_month
from billing.verify import verify_all
from tests.billing.calls import ADMITTED_US, checkpoint, opened_call, settled_call
from tests.billing.ledger_parts import (
    eventually,
    make_reaper,
    make_writer,
    open_shards,
    unlimited,
    writing,
)
from tests.billing.limits.harness import ORG, SHARD

DAY_US = 86_400_000_000
NOW_US = ADMITTED_US + 10_000_000
DAILY = Calendar(Unit.DAY, "America/New_York", datetime(1970, 1, 1))
HOUR = Rolling(3_600)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def make(store: Store, window: Window = DAILY, **changes: Any) -> Budget:
    values: dict[str, Any] = {
        "budget_id": "bud_1",
        "org": "org_1",
        "owner": "key:key_1",
        "end_user": "",
        "subject": "",
        "name": "a budget",
        "amount_nanousd": 10_000_000,
        "is_hard": True,
        "alert_percents": [50, 100],
        "created_us": 1,
    } | changes
    with store.write() as conn:
        row = dict.fromkeys(("zone", "anchor", "span_s")) | values | rows.columns_of(window)
        conn.execute(insert(rows.BUDGET).values(**row))
        return rows.of_ids(conn, [values["budget_id"]])[values["budget_id"]]


def opened(rid: str, *shares: BudgetShare, **changes: Any) -> OpenedCall:
    return opened_call(rid, budgets=list(shares), **changes)


def settled(store: Store, call: OpenedCall, tokens: int = 100, **changes: Any) -> SettledCall:
    """Of so many output tokens, charged by the book."""
    ended = settled_call(call, output=tokens, input=0, budgets=call.budgets, **changes)
    amount = amounts_of_book(load_book(store))(
        model=ended.model,
        tier=ended.tier,
        batch=ended.batch,
        usage=ended.usage,
        price_version=ended.price_version,
    )
    return msgspec.structs.replace(ended, amount_nanousd=amount)


def book(store: Store, *calls: SettledCall, now_us: int = NOW_US) -> None:
    records = [
        Record(SHARD, f"{n}-1", "settled", call.rid, encode(call)) for n, call in enumerate(calls)
    ]
    with store.write() as conn:
        assert not booking.book(conn, booking.read(records, load_book(store), now_us)).failures


def sums(store: Store) -> dict[tuple[str, str, int], int]:
    with store.read() as conn:
        found = conn.execute(select(rows.SPENT)).all()
    return {(r.budget_id, r.subject, r.bucket_us): r.amount_nanousd for r in found}


def told(store: Store) -> list[tuple[str, str, int, int]]:
    with store.read() as conn:
        found = rows.alerts(conn, org="org_1", budget_id=None, before_us=None, limit=100)
    return sorted((r["budget_id"], r["subject"], r["bucket_us"], r["percent"]) for r in found)


@pytest.mark.parametrize("window", [DAILY, Ever(), HOUR], ids=["day", "ever", "hour"])
def test_a_call_counts_once_however_often_it_is_told(store: Store, window: Window) -> None:
    budget = make(store, window)
    share = share_of(budget, "", ADMITTED_US)
    calls = [settled(store, opened(f"req_{n}", share)) for n in range(3)]
    book(store, *calls, calls[0])
    book(store, *calls)
    bucket = budget.budget_id, "", share.bucket_us(calls[0].ended_us)
    assert sums(store) == {bucket: sum(call.amount_nanousd for call in calls)}


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("window", [DAILY, HOUR], ids=["day", "hour"])
def test_a_correction_moves_the_bucket_of_the_first_record(
    store: Store, window: Window, together: bool
) -> None:
    share = share_of(make(store, window), "", ADMITTED_US)
    call = opened("req_1", share)
    guess = settled(store, call, 10, source=UsageSource.ESTIMATED)
    exact = settled(store, call, 99, ended_us=ADMITTED_US + DAY_US)
    for batch in ([guess, exact],) if together else ([guess], [exact]):
        book(store, *batch)
    assert sums(store) == {("bud_1", "", share.bucket_us(guess.ended_us)): exact.amount_nanousd}


def test_a_free_estimate_is_corrected_too(store: Store) -> None:
    share = share_of(make(store), "", ADMITTED_US)
    call = opened("req_1", share)
    book(store, settled(store, call, 0, source=UsageSource.ESTIMATED))
    book(store, exact := settled(store, call, 99))
    assert sum(sums(store).values()) == exact.amount_nanousd > 0


def test_every_budget_of_a_call_counts_it_each_by_its_own_window(store: Store) -> None:
    day = make(store)
    ever = make(store, Ever(), budget_id="bud_2", owner="org:org_1", is_hard=False)
    users = make(store, HOUR, budget_id="bud_3", owner="org:org_1", end_user=EACH_USER)
    alice, bob = digest_of("alice"), digest_of("bob")
    of_all = [share_of(day, "", ADMITTED_US), share_of(ever, "", ADMITTED_US)]
    one = settled(store, opened("req_1", *of_all, share_of(users, alice, ADMITTED_US)))
    other = settled(store, opened("req_2", *of_all, share_of(users, bob, ADMITTED_US)), 7)
    book(store, one, other)
    found = {(budget, subject): amount for (budget, subject, _), amount in sums(store).items()}
    both = one.amount_nanousd + other.amount_nanousd
    assert found == {
        ("bud_1", ""): both,
        ("bud_2", ""): both,
        ("bud_3", alice): one.amount_nanousd,
        ("bud_3", bob): other.amount_nanousd,
    }


def test_an_alert_is_raised_once_for_each_threshold_and_period(store: Store) -> None:
    cost = settled(store, opened("req_0")).amount_nanousd
    budget = make(store, amount_nanousd=4 * cost)
    days = [share_of(budget, "", ADMITTED_US + day * DAY_US) for day in range(2)]
    for n in range(6):
        day = 0 if n < 5 else 1
        us = ADMITTED_US + day * DAY_US
        call = opened(f"req_{n}", days[day], admitted_us=us)
        book(store, settled(store, call, ended_us=us), now_us=us)
        first, second = days[0].start_us, days[1].start_us
        expected = [("bud_1", "", first, 50)] if n >= 1 else []
        expected += [("bud_1", "", first, 100)] if n >= 3 else []
        assert told(store) == expected, "not at a half too early (bifrost#5770)"
    assert second > first
    with store.read() as conn:
        newest = rows.alerts(conn, org=None, budget_id="bud_1", before_us=None, limit=1)[0]
    assert (newest["percent"], newest["spent_nanousd"]) == (100, 4 * cost)
    assert newest["amount_nanousd"] == 4 * cost


def test_an_alert_of_a_rolling_span_is_told_once_in_a_span(store: Store) -> None:
    cost = settled(store, opened("req_0")).amount_nanousd
    budget = make(store, HOUR, amount_nanousd=cost, alert_percents=[100])
    share = share_of(budget, "", ADMITTED_US)
    ends = [ADMITTED_US + minutes * 60_000_000 for minutes in (0, 10, 50, 130)]
    for n, ended_us in enumerate(ends):
        call = opened(f"req_{n}", share)
        book(store, settled(store, call, ended_us=ended_us), now_us=ended_us)
    assert [bucket for _, _, bucket, _ in told(store)] == [
        HOUR.bucket_us(ends[0]),
        HOUR.bucket_us(ends[3]),
    ]


def test_a_correction_may_raise_an_alert_and_takes_none_back(store: Store) -> None:
    budget = make(store, amount_nanousd=1)
    call = opened("req_1", share_of(budget, "", ADMITTED_US))
    book(store, settled(store, call, 0, source=UsageSource.ESTIMATED))
    assert told(store) == []
    book(store, settled(store, call, 5))
    assert [percent for *_, percent in told(store)] == [50, 100]


def test_budgets_that_nobody_knows_count_and_tell_nothing(store: Store) -> None:
    """A call is booked whatever it names: what it names was known when it was admitted."""
    book(store, call := settled(store, opened("req_1", BudgetShare(budget="bud_gone"))))
    assert sums(store) == {("bud_gone", "", 0): call.amount_nanousd}
    assert told(store) == []


@pytest.mark.parametrize("window", [DAILY, Ever(), HOUR], ids=["day", "ever", "hour"])
async def test_g23_purses_are_rebuilt_from_what_the_ledger_counts(
    store: Store, redis: Redis, window: Window
) -> None:
    """LiteLLM#30039: after a failure the counter is again what the ledger says."""
    budget = make(store, window)
    soft = make(store, window, budget_id="bud_soft", is_hard=False)
    now_us = ADMITTED_US
    shares = [share_of(each, "", now_us) for each in (budget, soft)]
    calls = [settled(store, opened(f"req_{n}", *shares)) for n in range(3)]
    book(store, *calls)
    found = [each for of in purses_by_shard(store, now_us).values() for each in of]
    assert [each.purse.name for each in found] == [purse_of(shares[0], 0).name], "none of the soft"
    holds = Holds(redis)
    for shard in range(64):
        await holds.begin_priming(shard, f"{await holds.run_id()}:1")
        own = purses_by_shard(store, now_us)[shard]
        assert await holds.prime(shard, {}, "0-0", f"{await holds.run_id()}:1", own)
    purse = purse_of(shares[0], budget.amount_nanousd)
    spent = sum(call.amount_nanousd for call in calls)
    assert await holds.purses(ORG, [purse], now_us=now_us) == [(0, spent)]


async def spent_for_real(store: Store, redis: Redis, budget: Budget) -> list[SettledCall]:
    """Calls of now, from their admission through the stream into the ledger."""
    await open_shards(redis)
    now_us = time.time_ns() // 1000
    holds, calls = Holds(redis), []
    async with writing(make_writer(redis, store)) as writer:
        for n in range(3):
            share = share_of(budget, "", now_us)
            call = opened(
                f"req_{n}",
                share,
                admitted_us=now_us,
                month=utc_month(now_us),
                hold_nanousd=10_000,
            )
            purse = purse_of(share, budget.amount_nanousd)
            admitted = await holds.admit(call, unlimited(call), lease_s=60, purses=[purse])
            assert isinstance(admitted, Admitted)
            calls.append(settled(store, call, ended_us=now_us + 1))
            await holds.settle(calls[-1])
        await eventually(lambda: writer.stats.events == 3)
    return calls


def broken(report: Report) -> dict[str, str]:
    return {c.name: c.detail for c in report.checks if c.outcome is Outcome.BROKEN}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("window", [DAILY, Ever(), HOUR], ids=["day", "ever", "hour"])
async def test_verify_recomputes_the_sums_of_budgets_and_compares_purses(
    store: Store, redis: Redis, window: Window
) -> None:
    budget = make(store, window)
    calls = await spent_for_real(store, redis, budget)
    now_us = time.time_ns() // 1000
    report = await verify_all(store, now_us=now_us, redis=redis)
    assert report.ok, report.as_text()
    names = {c.name: c.checked for c in report.checks if c.outcome is Outcome.HOLDS}
    assert (names["I9 budget_sums"], names["I11 purses_in_redis"]) == (3, 1)
    with store.write() as conn:
        conn.execute(update(rows.SPENT).values(amount_nanousd=rows.SPENT.c.amount_nanousd + 1))
    found = broken(await verify_all(store, now_us=now_us, redis=redis))
    spent = sum(call.amount_nanousd for call in calls)
    assert found["I9 budget_sums"].endswith(": 1 nano-USD too much")
    assert f"Redis {spent}, SQL {spent + 1}" in found["I11 purses_in_redis"]


async def test_verify_names_an_alert_that_was_not_true(store: Store) -> None:
    budget = make(store, amount_nanousd=1)
    book(store, settled(store, opened("req_1", share_of(budget, "", ADMITTED_US))))
    with store.write() as conn:
        conn.execute(update(rows.ALERT).values(spent_nanousd=2**62, amount_nanousd=2**62))
    assert (await verify_all(store, now_us=NOW_US)).ok
    with store.write() as conn:
        conn.execute(update(rows.ALERT).values(spent_nanousd=2**60))
    assert broken(await verify_all(store, now_us=NOW_US)) == {
        "budget_alerts": f"budget bud_1 at 50 %: {2**60} of {2**62}"
    }


async def test_g22_a_call_whose_gateway_died_frees_what_its_budgets_held(
    store: Store, redis: Redis, tmp_path: Path
) -> None:
    """LiteLLM#27639, new-api#4429: reservations that leak until a budget is exceeded by nothing."""
    budget = make(store, HOUR, amount_nanousd=10_000)
    await open_shards(redis)
    now_us = time.time_ns() // 1000
    share = share_of(budget, "", now_us)
    purse = purse_of(share, budget.amount_nanousd)
    call = opened("req_1", share, admitted_us=now_us, hold_nanousd=9_000)
    holds = Holds(redis)
    assert isinstance(
        await holds.admit(call, unlimited(call), lease_s=0.01, purses=[purse]), Admitted
    )
    seen = checkpoint(1, output=100, input=0, at_us=now_us + 5)
    await holds.renew(call.rid, call.org, lease_s=0.01, topup_nanousd=500, checkpoint=seen)
    assert await holds.purses(ORG, [purse], now_us=now_us) == [(9_500, 0)]
    reaper = make_reaper(redis, store, tmp_path)
    async with asyncio.timeout(30), writing(make_writer(redis, store)) as writer:
        while not await reaper.turn():  # noqa: ASYNC110 - the lease runs by Redis' clock
            await asyncio.sleep(0.02)
        await eventually(lambda: writer.stats.events == 1)
    (spent,) = sums(store).values()
    assert 0 < spent < 9_500
    assert await holds.purses(ORG, [purse], now_us=now_us) == [(0, spent)]
    exact = settled(store, call, 200, ended_us=now_us + 9)
    assert await holds.settle(exact) is SettleState.CORRECTED
    async with writing(make_writer(redis, store)) as writer:
        await eventually(lambda: writer.stats.corrections == 1)
    assert sum(sums(store).values()) == exact.amount_nanousd
    assert await holds.purses(ORG, [purse], now_us=now_us) == [(0, exact.amount_nanousd)]


def test_part_of_a_rolling_span_counts_until_the_span_has_wholly_left_it(store: Store) -> None:
    """Priming reads what still counts: a part that is forgotten too soon lets a span overspend."""
    share = share_of(make(store, HOUR), "", ADMITTED_US)
    call = settled(store, opened("req_1", share))
    book(store, call)
    bucket_us = share.bucket_us(call.ended_us)
    with store.read() as conn:
        (row,) = conn.execute(select(rows.SPENT)).all()
    assert row.until_us == bucket_us + share.width_us + share.span_us > bucket_us
    correction = settled(store, opened("req_2", share), 10, source=UsageSource.ESTIMATED)
    book(store, correction)
    book(store, settled(store, opened("req_2", share), 99))
    with store.read() as conn:
        assert {row.until_us for row in conn.execute(select(rows.SPENT)).all()} == {row.until_us}
