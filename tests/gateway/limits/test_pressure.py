"""Redis fills where the ledger is behind: what can wait is refused first, what runs never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.limits.pressure import ALL_AT, FLEX_AT, Pressure
from routing.types import Tier

CHUNK = 50_000
OTHERS = [tier for tier in Tier if tier is not Tier.FLEX]


def full(redis: Redis, fraction: float) -> Pressure:
    pressure = Pressure(redis, 1.0)
    pressure.fraction = fraction
    return pressure


@given(fraction=st.floats(0, 2), tier=st.sampled_from(list(Tier)))
def test_flex_is_shed_first_and_everything_before_redis_is_full(
    fraction: float, tier: Tier
) -> None:
    refused = full(None, fraction).refusal(tier)  # type: ignore[arg-type]
    assert (refused is not None) == (fraction >= (FLEX_AT if tier is Tier.FLEX else ALL_AT))
    assert refused is None or (refused.status == 503 and refused.retry_after_s)


async def test_how_full_it_is_is_what_redis_says_of_its_own_bound(redis: Redis) -> None:
    pressure = Pressure(redis, 1.0)
    used = (await redis.info("memory"))["used_memory"]
    try:
        await redis.config_set("maxmemory", used * 10)
        await pressure.refresh()
        assert 0.05 < pressure.fraction < FLEX_AT
        assert pressure.refusal(Tier.FLEX) is None
        for n in range(used * 7 // CHUNK):
            await redis.set(f"usage:{n}", b"x" * CHUNK)
        await pressure.refresh()
        assert pressure.refusal(Tier.FLEX) is not None
        await redis.flushall()
        await pressure.refresh()
        assert pressure.refusal(Tier.FLEX) is None
    finally:
        await redis.config_set("maxmemory", 0)
    await pressure.refresh()
    assert 0 < pressure.fraction < FLEX_AT  # of the machine's, where it has no bound


@pytest.mark.parametrize("tier", OTHERS)
async def test_redis_that_does_not_answer_is_as_full_as_it_was(tier: Tier) -> None:
    async with Redis.from_url("redis://127.0.0.1:1", socket_connect_timeout=0.1) as nobody:
        pressure = full(nobody, 0.9)
        await pressure.refresh()
    assert pressure.refusal(tier) is not None
