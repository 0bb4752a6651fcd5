"""Attempts teach what decisions then read: through a whole gateway with a scripted server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.speeds.learner import ALL_OBSERVED, MORE_TOKENS_THAN_BYTES, Learner
from gateway.speeds.store import SPEEDS_KEY, SpeedStore
from gateway.upstream import fake
from routing.economics.lengths import Scope
from routing.economics.predictor import Facts
from routing.replicas.work import NO_WORK
from tests.gateway.admin.test_pools import send
from tests.gateway.edge import FAR, Edge, body, edge, story
from tests.redis_server import RedisServer
from tests.routing.fleets import call

CALLS = 3


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def _calls(one: Edge, count: int = CALLS) -> None:
    for _ in range(count):
        one.upstream.scripts.append(story(frames=4, pause_s=0.002))
        response = await one.post(body())
        assert response.status == 200
    await one.settled()


async def test_what_calls_teach_is_in_the_state_of_the_fleet_after_the_next_poll(one: Edge) -> None:
    await one.publish_fleet(one.replica())
    state = one.parts.fleet.state("tale-reserved")
    assert state is not None and state.learned is None
    await _calls(one)
    await one.parts.fleet.refresh()
    state, other = (one.parts.fleet.state(name) for name in ("tale-reserved", "tale-spot"))
    assert state is not None and other is not None
    assert state.learned is not None and state.learned == state.speeds
    assert other.learned is None, "a pool that does not say what it runs on has its own"
    target = one.parts.learner.predictor.targets["pool tale-reserved"]
    assert (target.first.taken, target.step.taken) == (CALLS, CALLS)
    assert target.step.predict_s((0.01,)) > 0.0005, "three pauses of 2 ms in seven tokens"


async def test_length_of_an_answer_is_learned_of_its_key_and_of_all(one: Edge) -> None:
    await _calls(one, 21)
    lengths = one.parts.learner.lengths
    assert lengths.expected(Scope("tale", "org_default", "key_default"), 64) < 12
    assert lengths.expected(Scope("tale"), 64) < 12
    assert lengths.expected(Scope("free"), 64) > 50


async def test_calibration_is_read_by_pool_with_what_tokens_cost_us(one: Edge) -> None:
    await one.publish_fleet(one.replica())
    await _calls(one)
    await one.parts.fleet.refresh()
    status, row = await send(one, "GET", "/calibrations/tale-reserved", {})
    assert (status, row["basis"], row["target"]) == (200, "observed", "pool tale-reserved")
    assert row["first_token"]["taken"] == row["step"]["taken"] == CALLS
    assert float(row["cost_output_usd_per_mtok"]) > 0 < float(row["cost_input_usd_per_mtok"])
    _, page = await send(one, "GET", "/calibrations?limit=2", {})
    assert [each["pool"] for each in page["data"]] == ["tale-reserved", "tale-spot"]
    assert page["data"][1]["basis"] == "guess" and page["data"][1]["step"] is None
    assert (await send(one, "GET", "/calibrations/ghost", {}))[0] == 404


async def test_what_was_learned_is_there_after_a_restart(one: Edge, redis: Redis) -> None:
    await _calls(one)
    await one.parts.speeds.flush()
    later = Learner(lambda _: NO_WORK)
    await SpeedStore(redis, later).refresh()
    target = later.predictor.targets["pool tale-reserved"]
    assert target.first.taken == CALLS
    await redis.hset(SPEEDS_KEY, "pool tale-reserved", b"{}")
    await redis.hset(SPEEDS_KEY, b"\xff", b"nonsense")
    anew = Learner(lambda _: NO_WORK)
    await SpeedStore(redis, anew).refresh()
    assert not anew.predictor.targets


async def test_prompt_outside_is_expected_in_tokens_and_held_in_bytes(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with (
        fake.FakeUpstream(lambda _: story()) as outside,
        edge(
            redis_server, redis, tmp_path, outer=outside.address, outer_pool={"model": FAR}
        ) as one,
    ):
        for prompt in (8, 8, 10_000):
            parts = (fake.plain_frame("hi", "stop"), fake.plain_usage(prompt, 1), fake.DONE)
            outside.scripts.append(fake.stream(*parts))
            assert (await one.post(body(model=FAR))).status == 200
        await one.settled()
        learner = one.parts.learner
        assert learner.refused == {MORE_TOKENS_THAN_BYTES: 1}
        assert learner.tokens_of_bytes.expected(FAR, 1000) < 500


def test_money_is_held_for_the_bytes_of_a_prompt_and_decisions_expect_its_tokens() -> None:
    learner = Learner(lambda _: NO_WORK)
    wanted = call(prompt_tokens={"small": 20, "large": 400}, output_tokens_max=600)
    expected = learner.expected(wanted, 2, by_bytes={"large"})
    assert expected.prompt_tokens == {"small": 20, "large": 400}
    assert [expected.likely_prompt_tokens(name) for name in ("small", "large")] == [20, 100]
    assert expected.output_tokens_expected == 2 * 180
    assert learner.expected(wanted, 1, by_bytes=()).likely_prompt_tokens("large") == 400


def test_of_many_calls_a_second_some_are_learned_from_once_a_target_is_known() -> None:
    learner = Learner(lambda _: NO_WORK)
    for n in range(ALL_OBSERVED):
        assert learner.watches("t", 100.0)
        learner.first_token(Facts("t", 10 + n), 0.1)
    watched = [learner.watches("t", 100.0 + n / 1000) for n in range(100)]
    assert 4 <= sum(watched) <= 5
    assert learner.watches("another", 100.0)
