"""Laws of the packed state: sums stay exact at any size, payloads are nobody's business but their
readers', and what the scripts pack is what Python reads."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from billing.limits import holds as holds_module
from billing.limits import keys
from billing.limits.state import OpenState, ScopeState, decode_call, decode_scope
from billing.limits.types import Admitted, Money, ScopeLimits, SettleState, Spent
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    MONTH,
    ORG,
    SCOPES,
    SHARD,
    open_shard,
    scope_state,
    stopped_clock,
    unlimited,
)
from tests.redis_server import RedisServer

AMOUNTS = st.integers(0, 2**53) | st.sampled_from([10**15 - 1, 10**15, 9 * 10**15 - 1])


@example(spent=0, amounts=[9 * 10**15 - 1, 1, 10**15])
@settings(max_examples=40, deadline=None)
@given(spent=st.integers(0, 2**62), amounts=st.lists(AMOUNTS, max_size=5))
def test_sums_are_exact_whatever_their_size(
    law_server: RedisServer, runner: asyncio.Runner, spent: int, amounts: list[int]
) -> None:
    runner.run(add_up(law_server, spent, amounts))


async def add_up(server: RedisServer, spent: int, amounts: list[int]) -> None:
    redis = server.client()
    await redis.flushall()
    holds, _ = await stopped_clock(redis)
    await open_shard(holds, {scope: Spent(spent, {MONTH: spent}) for scope in SCOPES})
    for number, amount in enumerate(amounts):
        call = opened_call(f"req_{number}", hold_nanousd=amount // 2)
        await holds.admit(call, unlimited(), lease_s=LEASE_S)
        assert await holds.settle(settled_call(call, amount)) is SettleState.SETTLED
    total = spent + sum(amounts)
    assert await holds.money(ORG, SCOPES[1]) == Money(0, Spent(total, {MONTH: total}))
    # a lost call that the ledger has charged more for takes away again
    less = settled_call(opened_call("req_lost"), 0)
    await holds.settle(less, booked_nanousd=10**15)
    assert (await holds.money(ORG, SCOPES[1])).spent.total_nanousd == total - 10**15
    await redis.aclose()


PAYLOADS = st.binary(max_size=2_000)


@settings(max_examples=40, deadline=None)
@given(opened=PAYLOADS, seen=PAYLOADS, scopes=st.integers(1, 6))
def test_payloads_are_kept_as_they_came(
    law_server: RedisServer, runner: asyncio.Runner, opened: bytes, seen: bytes, scopes: int
) -> None:
    runner.run(keep(law_server, opened, seen, scopes))


async def keep(server: RedisServer, opened: bytes, seen: bytes, count: int) -> None:
    redis: Any = server.client()
    await redis.flushall()
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    names = [f"scope:{'x' * number}{number}" for number in range(count)]
    limits = [ScopeLimits(scope=name, tokens_per_minute=600) for name in names]
    call = opened_call(hold_nanousd=2**53)
    with patch.object(holds_module, "encode", lambda _: opened):
        assert isinstance(await holds.admit(call, limits, lease_s=LEASE_S), Admitted)
    due_ms = clock.now_ms + int(LEASE_S * 1000)
    key = keys.call_key(SHARD, call.rid)
    assert decode_call(await redis.get(key)) == OpenState(2**53, due_ms, opened, b"")
    for checkpointed in (b"first", seen):
        await clock.advance(1_000_000)
        due_ms += 1_000
        with patch.object(holds_module, "encode", lambda _, seen=checkpointed: seen):
            await holds.renew(
                call.rid, ORG, lease_s=LEASE_S, topup_nanousd=0, checkpoint=checkpoint()
            )
        assert decode_call(await redis.get(key)) == OpenState(2**53, due_ms, opened, checkpointed)
    [(_, record)] = await redis.xrange(keys.usage_key(SHARD))
    assert record[b"p"] == opened
    assert await holds.settle(settled_call(call, 1)) is SettleState.SETTLED
    for name in names:
        state = await scope_state(redis, name)
        assert (state.held_nanousd, state.running, state.spent_nanousd) == (0, 0, 1)
    await redis.aclose()


def test_a_scope_that_redis_does_not_know_is_new() -> None:
    assert decode_scope(None) == decode_scope(bytes(88)) == ScopeState()
