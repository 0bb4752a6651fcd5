from __future__ import annotations

import asyncio
import os
import signal

import pytest
from redis.asyncio import Redis

from billing.limits.holds import Holds
from billing.limits.scripts import PARTS
from billing.limits.types import Admitted, LimitsUnavailable, SettleState
from tests.billing.calls import opened_call, settled_call
from tests.billing.limits.harness import LEASE_S, open_shard, unlimited
from tests.redis_server import RedisServer

SOON_S = 30.0
"""Of bounds of a fifth of a second, on a machine that has other things to do."""


async def test_a_redis_that_hangs_is_given_up_within_the_bound(
    redis_server: RedisServer, redis: Redis
) -> None:
    holds = Holds(redis, timeout_s=0.2)
    await open_shard(Holds(redis))
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(LimitsUnavailable):
            async with asyncio.timeout(SOON_S):
                await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
    answer = await Holds(redis).admit(opened_call(), unlimited(), lease_s=LEASE_S)
    assert isinstance(answer, Admitted)  # new or held: repeating is safe either way
    assert await Holds(redis).settle(settled_call(opened_call())) is SettleState.SETTLED


async def test_a_redis_that_is_gone_is_told_within_the_bound(
    redis_server: RedisServer, redis: Redis
) -> None:
    holds = Holds(redis, timeout_s=0.2)
    await open_shard(Holds(redis))
    redis_server.kill9()
    try:
        with pytest.raises(LimitsUnavailable):
            async with asyncio.timeout(SOON_S):
                await holds.settle(settled_call(opened_call()))
    finally:
        redis_server.start()


async def test_a_cancelled_call_does_not_mix_up_the_answers_of_others(
    redis: Redis,
) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    for number in range(30):
        admission = asyncio.create_task(
            holds.admit(opened_call(f"req_{number}"), unlimited(), lease_s=LEASE_S)
        )
        for _ in range(number % 6):
            await asyncio.sleep(0)
        admission.cancel()
        await asyncio.gather(admission, return_exceptions=True)
        money = await holds.money("org_1", "org:org_1")
        assert money.spent.total_nanousd == 0
    for number in range(30):
        await holds.settle(settled_call(opened_call(f"req_{number}"), 0))
    assert (await holds.money("org_1", "org:org_1")).held_nanousd == 0


async def test_prepared_limits_need_nothing_more_for_the_first_call(redis: Redis) -> None:
    holds = Holds(redis)
    await holds.prepare()
    await open_shard(holds)
    await redis.config_resetstat()
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    stats = await redis.info("commandstats")
    assert "cmdstat_eval" not in stats and stats["cmdstat_evalsha"]["calls"] == 1
    assert (await redis.info("stats"))["total_connections_received"] == 0


async def test_scripts_that_redis_has_forgotten_are_loaded_once_for_everybody(
    redis: Redis,
) -> None:
    """A thousand calls find them gone at once; each loading them made Redis late for all."""
    holds = Holds(redis, timeout_s=5.0)
    await open_shard(holds)
    await redis.script_flush()
    await redis.config_resetstat()
    answers = await asyncio.gather(
        *(
            holds.admit(opened_call(f"req_{number}"), unlimited(), lease_s=LEASE_S)
            for number in range(300)
        )
    )
    assert {answer.state for answer in answers if isinstance(answer, Admitted)} == {"new"}
    assert len(answers) == 300
    stats = await redis.info("commandstats")
    assert stats["cmdstat_eval"]["calls"] <= 3 * len(PARTS), "a few loads, whoever asked"
