from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from billing.limits.breaker import Breaker, BreakerSettings
from billing.limits.holds import Holds
from billing.limits.types import Admitted, LimitsUnavailable, NotAsked
from tests.billing.calls import opened_call
from tests.billing.limits.harness import LEASE_S, open_shard, unlimited
from tests.redis_server import RedisServer


class Time:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def breaker(clock: Time) -> Breaker:
    return Breaker(BreakerSettings(failures_max=3, open_s=2.0), clock)


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.ask()
        breaker.failed()


def test_some_failures_change_nothing_and_an_answer_forgets_them(breaker: Breaker) -> None:
    fail(breaker, 2)
    breaker.answered()
    fail(breaker, 2)
    breaker.ask()
    assert not breaker.is_open


def test_too_many_in_a_row_and_nobody_asks_for_a_while(breaker: Breaker, clock: Time) -> None:
    fail(breaker, 3)
    assert (breaker.is_open, breaker.wait_s) == (True, 2.0)
    clock.now_s += 1.9
    with pytest.raises(NotAsked):
        breaker.ask()


def test_one_silence_of_full_length_is_enough_and_counts_once(breaker: Breaker) -> None:
    breaker.ask()
    breaker.silent()
    assert (breaker.is_open, breaker.openings) == (True, 1)
    breaker.silent()  # of somebody who had asked before
    assert breaker.openings == 1
    breaker.answered()
    assert not breaker.is_open


def test_clock_that_is_put_back_by_hours_keeps_nobody_from_asking_for_longer(
    breaker: Breaker, clock: Time
) -> None:
    fail(breaker, 3)
    clock.now_s -= 7_200.0
    with pytest.raises(NotAsked):
        breaker.ask()
    assert breaker.wait_s == 2.0
    clock.now_s += 2.0
    breaker.ask()
    breaker.answered()
    assert not breaker.is_open


def test_after_a_while_one_asks_and_the_others_wait_for_its_answer(
    breaker: Breaker, clock: Time
) -> None:
    fail(breaker, 3)
    clock.now_s += 2.0
    breaker.ask()
    with pytest.raises(NotAsked):
        breaker.ask()
    breaker.failed()
    with pytest.raises(NotAsked):
        breaker.ask()
    clock.now_s += 2.0
    breaker.ask()
    breaker.answered()
    breaker.ask()
    assert not breaker.is_open


def test_one_who_never_comes_back_with_an_answer_blocks_nobody_for_ever(
    breaker: Breaker, clock: Time
) -> None:
    fail(breaker, 3)
    for _ in range(3):
        clock.now_s += 2.0
        breaker.ask()


def test_news_are_told_once(clock: Time) -> None:
    told: list[bool] = []
    breaker = Breaker(BreakerSettings(failures_max=2, open_s=2.0), clock, told.append)
    fail(breaker, 2)
    breaker.failed()
    assert told == [True]
    clock.now_s += 2.0
    breaker.ask()
    breaker.answered()
    breaker.answered()
    assert told == [True, False]


async def test_g34_redis_that_is_gone_is_asked_no_more_until_it_may_be_back(
    redis_server: RedisServer, redis: Redis, breaker: Breaker, clock: Time
) -> None:
    holds = Holds(redis, timeout_s=10, breaker=breaker)
    await open_shard(holds)
    redis_server.kill9()
    try:
        calls = (
            holds.admit(opened_call(f"req_{n}"), unlimited(), lease_s=LEASE_S) for n in range(50)
        )
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(answer, LimitsUnavailable) for answer in answers)
        with pytest.raises(NotAsked):
            await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    finally:
        redis_server.start()
    with pytest.raises(NotAsked):
        await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    clock.now_s += 2.0
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    assert not breaker.is_open
    await open_shard(holds)
    answer = await holds.admit(opened_call("req_back"), unlimited(), lease_s=LEASE_S)
    assert isinstance(answer, Admitted)
