"""Two gateways over one Redis: what one finds out, the other knows."""

from __future__ import annotations

from redis.asyncio import Redis

from gateway.health.breakers import Breakers
from gateway.health.shared import ENTRIES_MAX, HEALTH_KEY, SharedHealth
from routing.health.breaker import OF_A_PLACE
from tests.gateway.health.test_breakers import PLACE, Clock, fail, opened
from tests.redis_server import RedisServer


def shared(redis: Redis, breakers: Breakers, name: str) -> SharedHealth:
    return SharedHealth(redis, breakers, lambda: (), name)


async def test_a_breaker_that_opens_and_closes_at_one_does_so_at_the_other(redis: Redis) -> None:
    clock = Clock()
    one, other = opened(clock), Breakers(clock)
    a, b = shared(redis, one, "a"), shared(redis, other, "b")
    await a.refresh()
    await b.refresh()
    assert other.visit(PLACE) is None
    clock.now_s += 10
    for _ in range(OF_A_PLACE.probes):
        visit = other.visit(PLACE)
        assert visit is not None
        visit.answered()
    await b.refresh()
    await a.refresh()
    assert one.by_scope[PLACE[0]].openings == 0


async def test_a_gateway_that_starts_knows_what_was_found_out_before(redis: Redis) -> None:
    clock = Clock()
    await shared(redis, opened(clock), "a").refresh()
    late = Breakers(clock)
    await shared(redis, late, "late").refresh()
    assert late.visit(PLACE) is None


async def test_redis_that_is_away_keeps_what_is_not_told_yet(
    redis: Redis, redis_server: RedisServer
) -> None:
    clock = Clock()
    breakers = opened(clock)
    a = shared(redis, breakers, "a")
    redis_server.kill9()
    await a.refresh()
    assert breakers.untold
    redis_server.start()
    other = Breakers(clock)
    fresh = redis_server.client()
    try:
        await shared(fresh, breakers, "a").refresh()
        await shared(fresh, other, "b").refresh()
    finally:
        await fresh.aclose()
    assert other.visit(PLACE) is None


async def test_the_stream_is_bounded_and_nonsense_in_it_is_nothing(redis: Redis) -> None:
    clock = Clock()
    breakers = Breakers(clock)
    a = shared(redis, breakers, "a")
    await redis.xadd(HEALTH_KEY, {"by": "b", "reports": b"\xc1"})
    for number in range(ENTRIES_MAX // 100):
        for place in range(100):
            fail(breakers, (f"pool:{number}-{place}",), times=OF_A_PLACE.in_a_row)
        await a.refresh()
    assert await redis.xlen(HEALTH_KEY) <= ENTRIES_MAX
    assert await redis.ttl(HEALTH_KEY) > 0
