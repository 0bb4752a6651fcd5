"""Purses: hard budgets in Redis. Never overspent, a period is a key of its own, a rolling span has
whole parts, and a Redis that was wiped learns from the ledger what is left."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import (
    Admitted,
    Dimension,
    HardBudget,
    PurseSpent,
    Refused,
    Renewed,
    RenewRefused,
    SettleState,
    purse_of,
)
from billing.types import BudgetShare, OpenedCall, UsageSource
from tests.billing.calls import ADMITTED_US, checkpoint, opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    ORG,
    SHARD,
    digest,
    open_shard,
    stopped_clock,
    unlimited,
)

DAY_US = 86_400_000_000
TODAY = BudgetShare(
    budget="bud_day",
    start_us=ADMITTED_US - ADMITTED_US % DAY_US,
    until_us=ADMITTED_US - ADMITTED_US % DAY_US + DAY_US,
    is_hard=True,
)
EVER = BudgetShare(budget="bud_ever", is_hard=True)
HOUR = BudgetShare(
    budget="bud_hour", subject="ab12", span_us=3_600_000_000, width_us=72_000_000, is_hard=True
)
EACH = pytest.mark.parametrize("share", [TODAY, EVER, HOUR], ids=["day", "ever", "hour"])


def call_of(rid: str, *shares: BudgetShare, **changes: Any) -> OpenedCall:
    return opened_call(rid, budgets=list(shares), **changes)


async def admit(holds: Holds, call: OpenedCall, amount: int = 5_000) -> Any:
    return await holds.admit(
        call, unlimited(), lease_s=LEASE_S, purses=[purse_of(s, amount) for s in call.budgets]
    )


async def renew(holds: Holds, rid: str, topup: int) -> Any:
    return await holds.renew(
        rid, ORG, lease_s=LEASE_S, topup_nanousd=topup, checkpoint=checkpoint()
    )


async def money(holds: Holds, share: BudgetShare, now_us: int = ADMITTED_US) -> tuple[int, int]:
    """Held and spent."""
    return (await holds.purses(ORG, [purse_of(share, 5_000)], now_us=now_us))[0]


async def opened_shard(redis: Redis) -> tuple[Holds, Any]:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    return holds, clock


@EACH
async def test_a_purse_holds_tops_up_and_spends_and_never_more_than_it_has(
    redis: Redis, share: BudgetShare
) -> None:
    holds, _ = await opened_shard(redis)
    one = call_of("req_1", share, hold_nanousd=3_000)
    assert isinstance(await admit(holds, one), Admitted)
    before = await digest(redis)
    name = purse_of(share, 0).name
    two = call_of("req_2", share, hold_nanousd=2_001)
    assert await admit(holds, two) == Refused(name, Dimension.BUDGET, None)
    assert await digest(redis) == before, "a refusal writes nothing"
    assert await renew(holds, "req_1", 2_001) == RenewRefused(name, Dimension.BUDGET, 3_000)
    assert await renew(holds, "req_1", 2_000) == Renewed(5_000)
    assert await money(holds, share) == (5_000, 0)
    assert await holds.settle(settled_call(one, 4_000)) is SettleState.SETTLED
    assert await money(holds, share) == (0, 4_000)
    assert await admit(holds, call_of("req_3", share, hold_nanousd=1_001)) == Refused(
        name, Dimension.BUDGET, None
    )
    assert isinstance(await admit(holds, call_of("req_4", share, hold_nanousd=1_000)), Admitted)


@EACH
async def test_admitting_and_settling_again_moves_nothing(redis: Redis, share: BudgetShare) -> None:
    holds, _ = await opened_shard(redis)
    call = call_of("req_1", share)
    for state in ("new", "held"):
        assert (await admit(holds, call)).state == state
    assert await money(holds, share) == (1_000, 0)
    for outcome in (SettleState.SETTLED, SettleState.ALREADY):
        assert await holds.settle(settled_call(call, 700)) is outcome
    assert (await admit(holds, call)).state == "settled"
    assert await money(holds, share) == (0, 700)


@EACH
async def test_what_was_dispatched_nowhere_is_given_back(redis: Redis, share: BudgetShare) -> None:
    holds, _ = await opened_shard(redis)
    call = call_of("req_1", share)
    await admit(holds, call)
    await holds.settle(settled_call(call, 0), refund=True)
    assert await money(holds, share) == (0, 0)


@EACH
async def test_an_exact_record_corrects_an_estimate_where_that_was_counted(
    redis: Redis, share: BudgetShare
) -> None:
    holds, _ = await opened_shard(redis)
    call = call_of("req_1", share)
    await admit(holds, call)
    estimate = settled_call(call, 400, source=UsageSource.ESTIMATED, budgets=call.budgets)
    await holds.settle(estimate)
    later_us = ADMITTED_US + 600_000_000
    exact = settled_call(call, 900, ended_us=later_us, budgets=call.budgets)
    assert await holds.settle(exact) is SettleState.CORRECTED
    assert await money(holds, share) == (0, 900)
    gone_us = ADMITTED_US + HOUR.span_us + HOUR.width_us
    assert await money(holds, share, gone_us) == (0, 0 if share is HOUR else 900)


async def test_every_budget_of_a_call_binds_it(redis: Redis) -> None:
    holds, _ = await opened_shard(redis)
    call = call_of("req_1", TODAY, EVER, HOUR, hold_nanousd=1_000)
    wide = [purse_of(share, 10_000) for share in (TODAY, EVER)]
    purses = [*wide, purse_of(HOUR, 999)]
    refused = await holds.admit(call, unlimited(), lease_s=LEASE_S, purses=purses)
    assert refused == Refused(purses[2].name, Dimension.BUDGET, None)
    for share in (TODAY, EVER, HOUR):
        assert await money(holds, share) == (0, 0), "all or nothing"


async def test_g30_another_period_is_another_purse_and_nothing_is_reset(redis: Redis) -> None:
    """litellm#34270, #38686: a job that resets may run late, twice or never. Calls of both days go
    on side by side, each in the day in which it was admitted."""
    holds, clock = await opened_shard(redis)
    tomorrow = BudgetShare(
        budget="bud_day",
        start_us=TODAY.until_us,
        until_us=TODAY.until_us + DAY_US,
        is_hard=True,
    )
    late = call_of("req_late", TODAY, hold_nanousd=4_000)
    await admit(holds, late)
    await clock.advance(DAY_US)
    early = call_of("req_early", tomorrow, hold_nanousd=4_000)
    assert isinstance(await admit(holds, early), Admitted)
    assert isinstance(await renew(holds, "req_late", 1_000), Renewed)
    assert isinstance(await renew(holds, "req_late", 1), RenewRefused)
    await holds.settle(settled_call(late, 4_500))
    assert await money(holds, TODAY) == (0, 4_500)
    assert await money(holds, tomorrow) == (4_000, 0)


async def test_a_purse_is_forgotten_long_after_its_period(redis: Redis) -> None:
    holds, _ = await opened_shard(redis)
    await admit(holds, call_of("req_1", TODAY, EVER, HOUR))

    async def kept_s(share: BudgetShare) -> int:
        return int(await redis.ttl(keys.meter_key(SHARD, purse_of(share, 0).name)))

    week_s = 7 * 86_400
    assert await kept_s(EVER) == -1
    assert week_s < await kept_s(HOUR) < 2 * week_s
    assert week_s < await kept_s(TODAY) < 2 * week_s


async def test_a_rolling_span_frees_what_has_left_it_and_no_sooner(redis: Redis) -> None:
    holds, clock = await opened_shard(redis)
    for number in range(5):
        ended_us = clock.now_us
        call = call_of(f"req_{number}", HOUR, admitted_us=ended_us)
        assert isinstance(await admit(holds, call), Admitted)
        await holds.settle(settled_call(call, 1_000, ended_us=ended_us))
        await clock.advance(600_000_000)
    assert await money(holds, HOUR, clock.now_us) == (0, 5_000)
    await clock.advance(HOUR.span_us - 5 * 600_000_000)
    assert isinstance(await admit(holds, call_of("req_5", HOUR)), Refused), "an hour, not less"
    await clock.advance(HOUR.width_us)
    assert isinstance(await admit(holds, call_of("req_5", HOUR)), Admitted)
    assert isinstance(await admit(holds, call_of("req_6", HOUR)), Refused), "only the first left"


async def test_parts_of_a_span_are_counted_whatever_order_calls_end_in(redis: Redis) -> None:
    holds, clock = await opened_shard(redis)
    ends = [ADMITTED_US + HOUR.width_us * place for place in (3, 1, 4, 1, 5, 9, 2, 6)]
    for number, ended_us in enumerate(ends):
        call = call_of(f"req_{number}", HOUR, hold_nanousd=100)
        await admit(holds, call)
        await holds.settle(settled_call(call, 10**number % 89, ended_us=ended_us))
    await clock.advance(HOUR.width_us * 10)
    for past in range(60):
        now_us = clock.now_us + HOUR.width_us * past
        first_us = now_us - HOUR.span_us
        first_us -= first_us % HOUR.width_us
        counted = sum(10**n % 89 for n, us in enumerate(ends) if HOUR.bucket_us(us) >= first_us)
        assert await money(holds, HOUR, now_us) == (0, counted)


@EACH
async def test_g23_a_wiped_redis_learns_from_the_ledger_what_is_left(
    redis: Redis, share: BudgetShare
) -> None:
    """LiteLLM#30460, #27735: counters of $50 where the database had $14."""
    holds, clock = await opened_shard(redis)
    running = call_of("req_1", share, hold_nanousd=1_500)
    await admit(holds, running)
    await redis.flushall()
    await clock.advance(0)
    purse = purse_of(share, 5_000)
    epoch = f"{await holds.run_id()}:again"
    await holds.begin_priming(SHARD, epoch)
    announced = await holds.reannounce(
        running,
        unlimited(),
        held_nanousd=1_500,
        lease_s=LEASE_S,
        checkpoint=None,
        purses=[purse],
    )
    assert announced
    spent = [PurseSpent(purse, ((share.bucket_us(ADMITTED_US), 3_000),))]
    last_id = await holds.last_stream_id(SHARD)
    assert await holds.prime(SHARD, {}, last_id, epoch, spent)
    assert await money(holds, share) == (1_500, 3_000)
    assert isinstance(await admit(holds, call_of("req_2", share, hold_nanousd=501)), Refused)
    assert isinstance(await admit(holds, call_of("req_2", share, hold_nanousd=500)), Admitted)
    await holds.settle(settled_call(running, 1_400))
    assert await money(holds, share) == (500, 4_400)


async def test_what_a_former_life_counted_counts_no_more(redis: Redis) -> None:
    """A purse that the ledger does not name at priming has spent nothing."""
    holds, _ = await opened_shard(redis)
    call = call_of("req_1", EVER)
    await admit(holds, call)
    await holds.settle(settled_call(call, 900))
    epoch = f"{await holds.run_id()}:next"
    await holds.begin_priming(SHARD, epoch)
    assert await holds.prime(SHARD, {}, await holds.last_stream_id(SHARD), epoch)
    assert await money(holds, EVER) == (0, 0)


@EACH
async def test_a_hold_that_redis_lost_is_spent_all_the_same(
    redis: Redis, share: BudgetShare
) -> None:
    """But for what the ledger has of it already."""
    holds, _ = await opened_shard(redis)
    for number, (booked, source) in enumerate(((0, UsageSource.ESTIMATED), (300, "exact"))):
        call = call_of(f"req_{number}", share)
        settled = settled_call(call, 700, budgets=call.budgets, source=UsageSource(source))
        assert await holds.settle(settled, booked_nanousd=booked) is SettleState.LOST
    assert await money(holds, share) == (0, 700 + 400)
    exact = settled_call(call_of("req_0", share), 500, budgets=[share])
    assert await holds.settle(exact) is SettleState.CORRECTED
    assert await money(holds, share) == (0, 500 + 400)


async def test_priming_waits_with_top_ups_and_settling_leaves_the_purse_to_it(redis: Redis) -> None:
    holds, _ = await opened_shard(redis)
    call = call_of("req_1", EVER)
    await admit(holds, call)
    epoch = f"{await holds.run_id()}:next"
    await holds.begin_priming(SHARD, epoch)
    assert await renew(holds, "req_1", 1) == RenewRefused("", Dimension.UNPRIMED, 1_000)
    await holds.settle(settled_call(call, 600))
    spent = [PurseSpent(purse_of(EVER, 5_000), ((0, 600),))]
    assert await holds.prime(SHARD, {}, await holds.last_stream_id(SHARD), epoch, spent)
    assert await money(holds, EVER) == (0, 600)


def test_a_purse_is_told_by_budget_subject_and_period() -> None:
    names = {purse_of(share, 1).name for share in (TODAY, EVER, HOUR)}
    assert len(names) == 3 and all(name.split() == [name] for name in names)
    assert HardBudget(name="x", amount_nanousd=1) == HardBudget(name="x", amount_nanousd=1)


@EACH
async def test_a_hold_that_is_told_again_counts_in_an_open_shard_at_once(
    redis: Redis, share: BudgetShare
) -> None:
    """Its key was lost, and no primer comes by: others must not be admitted on its money."""
    holds, _ = await opened_shard(redis)
    running = call_of("req_1", share, hold_nanousd=1_500)
    told = await holds.reannounce(
        running,
        unlimited(),
        held_nanousd=4_000,
        lease_s=LEASE_S,
        checkpoint=None,
        purses=[purse_of(share, 5_000)],
    )
    assert told and await money(holds, share) == (4_000, 0)
    assert isinstance(await admit(holds, call_of("req_2", share, hold_nanousd=1_001)), Refused)
