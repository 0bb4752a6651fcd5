"""Calls are counted at all gateways together, and share the cost of a start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.speeds.arrivals import BIN_S, BINS, Arrivals, arrivals_key
from gateway.speeds.learner import Learner
from routing.economics.rates import PRIOR_CALLS_PER_START, Occurrences
from routing.replicas.work import NO_WORK
from routing.types import ReplicaState
from tests.gateway.edge import Edge, body, edge, story
from tests.redis_server import RedisServer
from tests.routing.fleets import external, pool, replica, state

START_S = 1_790_000_000.0 // BIN_S * BIN_S


class Times:
    """A clock that a test moves."""

    def __init__(self, now_s: float = START_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Times:
    return Times()


async def test_gateways_count_together_and_know_it_after_a_restart(
    redis: Redis, clock: Times
) -> None:
    here, there = Arrivals(redis, clock), Arrivals(redis, clock)
    assert here.of("m") == Occurrences(0, 0)
    for _ in range(3):
        here.add("m")
    there.add("m")
    there.add("other")
    clock.now_s += 20.0
    assert here.of("m").times == 3, "before anybody was told"
    for each in (here, there, here):
        await each.refresh()
    assert here.of("m") == there.of("m") == Occurrences(4, 20.0)
    assert here.of("other").times == 1
    again = Arrivals(redis, clock)
    await again.refresh()
    assert again.of("m") == Occurrences(4, 20.0)


async def test_what_is_older_than_an_hour_is_forgotten(redis: Redis, clock: Times) -> None:
    arrivals = Arrivals(redis, clock)
    for _ in range(BINS):
        arrivals.add("m")
        await arrivals.refresh()
        clock.now_s += BIN_S
    clock.now_s -= 1.0
    assert arrivals.of("m") == Occurrences(BINS, BINS * BIN_S - 1.0)
    clock.now_s += 1.0
    await arrivals.refresh()
    assert arrivals.of("m") == Occurrences(BINS - 1, (BINS - 1) * BIN_S)
    clock.now_s += BINS * BIN_S
    await arrivals.refresh()
    assert arrivals.of("m").times == 0
    assert 0 < await redis.ttl(arrivals_key(round(clock.now_s // BIN_S))) <= (BINS + 1) * BIN_S


async def test_without_redis_a_gateway_goes_on_with_its_own_calls(
    redis_server: RedisServer, clock: Times
) -> None:
    away = Redis(unix_socket_path="/nowhere/redis.sock")
    arrivals = Arrivals(away, clock)
    for _ in range(2):
        arrivals.add("m")
        clock.now_s += 30.0
        await arrivals.refresh()
    assert arrivals.of("m") == Occurrences(2, 60.0)


@pytest.mark.parametrize(
    ("count", "expected"), [(0, 1.0), (7200, 600.0)], ids=["none came", "two a second"]
)
def test_a_cold_pool_is_priced_by_the_calls_that_share_its_start(
    count: int, expected: float
) -> None:
    learner = Learner(lambda _: NO_WORK, lambda _: Occurrences(count, 3600.0))
    cold = learner.learned(state(pool(idle_s=300.0)))
    assert cold.calls_per_start == pytest.approx(expected, rel=0.1) and cold.calls_per_start >= 1
    for same in (
        state(pool(), replica()),
        state(pool(), replica(state=ReplicaState.STARTING)),
        state(external()),
    ):
        assert learner.learned(same) == same, "nothing is started there"
    new = Learner(lambda _: NO_WORK).learned(state(pool()))
    assert new.calls_per_start == PRIOR_CALLS_PER_START


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def test_each_admitted_call_is_counted_once(one: Edge) -> None:
    for _ in range(3):
        one.upstream.scripts.append(story())
        assert (await one.post(body())).status == 200
    refused = await one.post(body(model="nobody"))
    assert refused.status == 404
    assert one.parts.arrivals.of("tale").times == 3
    await one.settled()
