from __future__ import annotations

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import Admitted, HoldState, Money, Refused, SettleState, Spent
from billing.types import CallStatus, UsageSource, decode_settled
from tests.billing.calls import opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    MONTH,
    ORG,
    SCOPES,
    SHARD,
    digest,
    limited,
    open_shard,
    scope_state,
    stopped_clock,
    unlimited,
)


async def spent(holds: Holds, scope: str = SCOPES[2]) -> Money:
    return await holds.money(ORG, scope)


async def test_settling_moves_held_to_spent_in_every_scope_and_returns_the_leases(
    redis: Redis,
) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    call = opened_call()
    await holds.admit(call, unlimited(), lease_s=LEASE_S)
    assert await holds.settle(settled_call(call, 700)) is SettleState.SETTLED
    for scope in SCOPES:
        assert await spent(holds, scope) == Money(0, Spent(700, {MONTH: 700}))
        assert (await scope_state(redis, scope)).running == 0
    assert await holds.open_count(SHARD) == 0
    hold = await holds.read(call.rid, ORG)
    assert hold and (hold.state, hold.amount_nanousd) == (HoldState.SETTLED, 700)
    record = (await redis.xrange(keys.usage_key(SHARD)))[-1][1]
    assert (record[b"k"], record[b"r"]) == (b"settled", call.rid.encode())
    assert decode_settled(record[b"p"]) == settled_call(call, 700)


async def test_settling_twice_writes_nothing(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    call = opened_call()
    await holds.admit(call, unlimited(), lease_s=LEASE_S)
    await holds.settle(settled_call(call))
    before = await digest(redis)
    assert await holds.settle(settled_call(call)) is SettleState.ALREADY
    estimated = settled_call(call, 1, source=UsageSource.ESTIMATED)
    assert await holds.settle(estimated) is SettleState.ALREADY
    assert await digest(redis) == before


@pytest.mark.parametrize("exact_nanousd", [0, 400, 700, 900])
async def test_an_exact_record_corrects_an_estimated_one(redis: Redis, exact_nanousd: int) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    call = opened_call()
    await holds.admit(call, unlimited(), lease_s=LEASE_S)
    estimated = settled_call(call, 400, source=UsageSource.ESTIMATED)
    assert await holds.settle(estimated) is SettleState.SETTLED
    hold = await holds.read(call.rid, ORG)
    assert hold and hold.state is HoldState.ESTIMATED
    exact = settled_call(call, exact_nanousd)
    assert await holds.settle(exact) is SettleState.CORRECTED
    assert await spent(holds) == Money(0, Spent(exact_nanousd, {MONTH: exact_nanousd}))
    assert await holds.settle(exact) is SettleState.ALREADY
    assert await redis.xlen(keys.usage_key(SHARD)) == 3


async def test_a_lost_hold_is_recorded_counted_once_and_remembered(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    call = settled_call(opened_call(), 700)
    assert await holds.settle(call, booked_nanousd=300) is SettleState.LOST
    assert await spent(holds) == Money(0, Spent(400, {MONTH: 400}))
    assert await holds.settle(call, booked_nanousd=300) is SettleState.ALREADY
    assert await redis.xlen(keys.usage_key(SHARD)) == 1


async def test_a_lost_hold_of_an_unprimed_shard_leaves_money_to_the_ledger(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    call = settled_call(opened_call(), 700)
    assert await holds.settle(call) is SettleState.LOST
    assert await spent(holds) == Money(0, Spent(0, {}))
    assert await redis.xlen(keys.usage_key(SHARD)) == 1
    assert await holds.settle(call) is SettleState.ALREADY


async def test_nothing_dispatched_gives_back_rate_tokens_and_money(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(requests_per_minute=1, tokens_per_minute=300)
    call = opened_call()
    assert isinstance(await holds.admit(call, scopes, lease_s=LEASE_S), Admitted)
    nothing = settled_call(call, 0, status=CallStatus.FAILED, input=0, output=0)
    assert await holds.settle(nothing, refund=True) is SettleState.SETTLED
    answer = await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S)
    assert isinstance(answer, Admitted)
    with pytest.raises(ValueError, match="refunded"):
        await holds.settle(settled_call(call, 1), refund=True)


async def test_the_request_count_of_a_dispatched_call_does_not_come_back(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(requests_per_minute=1)
    await holds.admit(opened_call(), scopes, lease_s=LEASE_S)
    await holds.settle(settled_call(opened_call()))
    assert isinstance(await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S), Refused)


async def test_an_underestimate_becomes_debt(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(tokens_per_minute=600, token_burst=300)
    await holds.admit(opened_call(tokens_estimate=100), scopes, lease_s=LEASE_S)
    call = opened_call(tokens_estimate=100)
    await holds.settle(settled_call(call, input=100, output=300))
    tiny = opened_call("req_2", tokens_estimate=1)
    refused = await holds.admit(tiny, scopes, lease_s=LEASE_S)
    assert isinstance(refused, Refused) and refused.retry_after_ms == 10_100
    await clock.advance(10_100_000)
    assert isinstance(await holds.admit(tiny, scopes, lease_s=LEASE_S), Admitted)


async def test_only_what_has_not_leaked_of_an_overestimate_comes_back(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(tokens_per_minute=600, token_burst=300)
    slow = opened_call("req_slow", tokens_estimate=100)
    await holds.admit(slow, scopes, lease_s=LEASE_S)
    await clock.advance(9_000_000)  # 90 of the 100 have leaked
    late = opened_call("req_late", tokens_estimate=50)
    await holds.admit(late, scopes, lease_s=LEASE_S)
    await holds.settle(settled_call(slow, input=0, output=0))
    probe = opened_call("req_probe", tokens_estimate=251)
    assert isinstance(await holds.admit(probe, scopes, lease_s=LEASE_S), Refused)
    probe = opened_call("req_probe", tokens_estimate=250)
    assert isinstance(await holds.admit(probe, scopes, lease_s=LEASE_S), Admitted)


async def test_the_reaper_leaves_a_hold_alone_that_was_renewed(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    call = opened_call()
    await holds.admit(call, unlimited(), lease_s=LEASE_S)
    cut = settled_call(call, 400, source=UsageSource.ESTIMATED)
    assert await holds.settle(cut, only_if_due=True) is SettleState.LIVE
    await clock.advance(int(LEASE_S * 1e6))
    assert await holds.settle(cut, only_if_due=True) is SettleState.SETTLED


async def test_sums_beyond_the_exact_range_of_doubles_stay_exact(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    large = 2**53 + 1
    await open_shard(holds, {SCOPES[2]: Spent(large, {MONTH: large})})
    for number in range(3):
        call = opened_call(f"req_{number}")
        await holds.admit(call, unlimited(), lease_s=LEASE_S)
        await holds.settle(settled_call(call, 1))
    assert await spent(holds) == Money(0, Spent(large + 3, {MONTH: large + 3}))
