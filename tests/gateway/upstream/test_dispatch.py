"""Walking a decision: the next worker, waiting, and what is left behind on every way out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import Route
from gateway.upstream import fake
from tests.gateway.edge import Edge, Response, body, edge, story
from tests.redis_server import RedisServer
from workers.controller.queue import WaitingRoom

WHOLE = body(stream=False, stream_options=None)
DRAINING = fake.refusal(503, {"message": "on its way down", "code": "worker_draining"})
BUSY = fake.refusal(503, {"message": "busy", "code": "server_is_overloaded"})
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def outcomes(one: Edge) -> list[str]:
    (call,) = (await one.settled()).values()
    return [attempt.outcome for attempt in call.attempts]


async def test_unreachable_replica_is_passed_over_for_the_next(one: Edge) -> None:
    busy = one.replica("alive") | {"running": 50}
    await one.publish_fleet(one.replica("gone", address=NOWHERE), busy)
    assert (await one.post(WHOLE)).status == 200
    assert await outcomes(one) == ["unreachable", "answered"]


@pytest.mark.parametrize("failing", [DRAINING, BUSY], ids=["draining", "busy"])
async def test_the_only_replica_is_asked_again_after_a_pause(
    one: Edge, failing: fake.Script
) -> None:
    """A drain may be called off by the very call that was turned away."""
    one.upstream.scripts.append(failing)
    assert (await one.post(WHOLE)).status == 200
    assert (await outcomes(one))[-1] == "answered"


async def test_worker_that_refuses_for_ever_is_a_503_with_its_own_retry_after(one: Edge) -> None:
    one.upstream.behaviour = lambda _: fake.refusal(
        503, {"message": "busy"}, (("retry-after", "77"),)
    )
    await one.publish_fleet(one.replica(), others="2 failed starts")
    response = await one.post(WHOLE)
    assert (response.status, response.error_code) == (503, "server_is_overloaded")
    assert response.headers["retry-after"] == "77"
    assert set(await outcomes(one)) == {"saturated"}


async def test_replica_that_becomes_warm_takes_the_waiting_call(one: Edge) -> None:
    await one.publish_fleet()
    waiting = asyncio.create_task(one.post(WHOLE))
    await one.waits()
    await one.publish_fleet(one.replica("late"))
    assert (await waiting).status == 200
    assert await outcomes(one) == ["answered"]


async def test_call_that_waits_for_a_cold_pool_leaves_it_for_a_better_one_that_is_free_again(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own warm pool had no place, and has one long before the other could have started."""
    entered = noted_rooms(monkeypatch)
    one.upstream.scripts.extend([BUSY, BUSY])
    assert (await one.post(WHOLE)).status == 200
    assert "tale-spot" in entered
    assert await outcomes(one) == ["saturated", "saturated", "answered"]
    pool, redecisions, end = await wait_of(one)
    assert (pool, end) == ("tale-spot", "better") and redecisions


async def wait_of(one: Edge) -> tuple[str | None, int | None, str | None]:
    (call,) = (await one.settled()).values()
    assert isinstance(call.route, Route)
    return call.route.wait_pool, call.route.redecisions, call.route.wait_end


def noted_rooms(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    entered: list[str] = []
    enter = WaitingRoom.enter

    async def noted(room: WaitingRoom, pool: str, *args: Any, **named: Any) -> int:
        entered.append(pool)
        return await enter(room, pool, *args, **named)

    monkeypatch.setattr(WaitingRoom, "enter", noted)
    return entered


@asynccontextmanager
async def beside_a_dear_server(
    server: RedisServer, redis: Redis, data: Path
) -> AsyncIterator[Edge]:
    """Nothing of our own is warm, and a server outside could answer at once, for more."""
    dear = {"cost_input_usd_per_mtok": "1", "cost_output_usd_per_mtok": "1"}
    async with fake.FakeUpstream(lambda _: story()) as outer:
        base_url = f"{outer.address}/v1"
        async with edge(server, redis, data, outer=base_url, outer_pool=dear) as one:
            await one.publish_fleet()
            yield one


async def looks(one: Edge, count: int) -> None:
    """Whoever waits looks at this many fleets, in which nothing is warm."""
    for _ in range(count):
        await one.publish_fleet()


async def test_flex_call_waits_for_its_cheap_cold_pool_beside_a_dear_one_and_is_served_there(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with beside_a_dear_server(redis_server, redis, tmp_path) as one:
        waiting = asyncio.create_task(one.post(WHOLE | {"service_tier": "flex"}))
        await one.waits()
        await looks(one, 10)
        await one.publish_fleet(one.replica("late"))
        assert (await waiting).status == 200
        (call,) = (await one.settled()).values()
        assert [attempt.pool for attempt in call.attempts] == ["tale-reserved"]
        pool, redecisions, end = await wait_of(one)
        assert (pool, end) == ("tale-reserved", "place")
        assert redecisions is not None and redecisions > 1


async def test_flex_call_goes_on_once_the_pools_it_waits_for_cannot_start(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with beside_a_dear_server(redis_server, redis, tmp_path) as one:
        waiting = asyncio.create_task(one.post(WHOLE | {"service_tier": "flex"}))
        await one.waits()
        await one.publish_fleet(others="2 failed starts", blocked="2 failed starts")
        assert (await waiting).status == 200
        (call,) = (await one.settled()).values()
        assert [attempt.pool for attempt in call.attempts] == ["outside"]
        assert (await wait_of(one))[2] == "blocked"


async def test_call_that_waits_for_a_cold_spot_pool_is_served_by_what_bridges_it(one: Edge) -> None:
    """Its mix starts a replica of another pool first, and says that nobody is to wait here."""
    await one.publish_fleet(blocked="mix tales runs on its other pools: 0 of 1 on spot")
    waiting = asyncio.create_task(one.post(WHOLE | {"service_tier": "flex"}))
    await one.waits()
    await one.publish_fleet(
        one.replica("bridge"), others="mix tales runs on its other pools: 0 of 1 on spot"
    )
    assert (await waiting).status == 200
    (call,) = (await one.settled()).values()
    assert [attempt.pool for attempt in call.attempts] == ["tale-reserved"]
    pool, _, end = await wait_of(one)
    assert (pool, end) == ("tale-spot", "blocked")


async def test_priority_call_never_waits_beside_a_server_that_can_answer(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = noted_rooms(monkeypatch)
    async with beside_a_dear_server(redis_server, redis, tmp_path) as one:
        assert (await one.post(WHOLE | {"service_tier": "priority"})).status == 200
        (call,) = (await one.settled()).values()
        assert [attempt.pool for attempt in call.attempts] == ["outside"]
        assert not entered
        assert await wait_of(one) == (None, None, None)


async def test_deadline_that_passes_in_the_waiting_room_is_a_504(one: Edge) -> None:
    await one.publish_fleet()
    response = await one.post_and_outwait(WHOLE)
    assert (response.status, response.error_code) == (504, "deadline_exceeded")
    assert await outcomes(one) == []
    assert (await wait_of(one))[2] == "deadline"


async def test_call_refused_for_a_cold_pool_has_it_started_for_when_it_comes_back(
    one: Edge,
) -> None:
    """Else `retry-after` would promise what nobody works on."""
    await one.publish_fleet()
    rooms = WaitingRoom(one.redis)
    assert await rooms.depth("tale-reserved") == 0
    for _ in range(5):
        response = await one.post(WHOLE, headers={"x-sluice-deadline-ms": "100"})
        assert (response.status, response.error_code) == (503, "server_is_overloaded")
    assert await rooms.depth("tale-reserved") + await rooms.depth("tale-spot") == 1
    assert not await one.settled()


async def test_deadline_that_no_worker_can_meet_is_a_503_however_warm_it_is(one: Edge) -> None:
    for milliseconds in ("1", "2", "4"):
        response = await one.post(WHOLE, headers={"x-sluice-deadline-ms": milliseconds})
        assert (response.status, response.error_code) == (503, "server_is_overloaded")
        assert int(response.headers["retry-after"]) >= 1
    assert not one.upstream.requests


async def test_deadline_that_passes_in_the_workers_queue_is_a_504(one: Edge) -> None:
    one.upstream.scripts.append(fake.Script([fake.Stall()]))
    response = await one.post(WHOLE, headers={"x-sluice-deadline-ms": "2000"})
    assert (response.status, response.error_code) == (504, "deadline_exceeded")
    assert len(await outcomes(one)) == 1


async def test_the_callers_mistake_is_not_tried_elsewhere(one: Edge) -> None:
    await one.publish_fleet(one.replica("r1"), one.replica("r2"))
    one.upstream.behaviour = lambda _: fake.refusal(400, {"message": "no", "code": "bad"})
    response = await one.post(WHOLE)
    assert (response.status, response.error_code) == (400, "bad")
    assert await outcomes(one) == ["rejected"]


async def test_held_stream_is_told_where_it_stands_and_still_answered(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    soon = {"commit_after_s": 0.05, "keepalive_s": 0.05}
    async with edge(redis_server, redis, tmp_path, gateway=soon) as one:
        await one.publish_fleet()

        async def warm_once_told(response: Response) -> None:
            while b": waiting for pool tale-" not in response.body:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await one.publish_fleet(one.replica("late"))
            await asyncio.Event().wait()

        response = await one.post(body(), leave=warm_once_told)
        assert (response.status, response.events[-1]) == (200, "[DONE]")
        await one.settled()


async def test_failure_after_the_commit_is_an_error_event_without_done(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    soon = {"commit_after_s": 0.05, "keepalive_s": 0.05}
    async with edge(redis_server, redis, tmp_path, gateway=soon) as one:
        await one.publish_fleet()
        response = await one.post_and_outwait(body(), told=b": ")
        assert response.status == 200
        assert response.chunks[-1]["error"]["code"] == "deadline_exceeded"
        assert "[DONE]" not in response.events
        await one.settled()


async def test_client_that_leaves_mid_stream_hangs_up_on_the_worker(one: Edge) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 2), then=[fake.Stall()]))

    async def after_first_chunk(response: Response) -> None:
        while b"a" not in response.body.partition(b"content")[2]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await one.post(body(), leave=after_first_chunk)
    (call,) = (await one.settled()).values()
    assert (call.status, call.output) == ("cancelled", 2)
    assert [attempt.outcome for attempt in call.attempts] == ["cancelled"]


async def test_attempts_record_where_and_how_much(one: Edge) -> None:
    one.upstream.scripts.append(story(frames=3))
    await one.post(body())
    (call,) = (await one.settled()).values()
    (attempt,) = call.attempts
    assert (attempt.pool, attempt.replica, attempt.output) == ("tale-reserved", "r1", 6)
    assert attempt.started_us <= attempt.ended_us
    assert attempt.kind == "first"
