"""`retry-after` of a call that lacks capacity is reckoned from what there is just then (G41)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.edge import POOLS, Edge, Response, body, edge
from tests.redis_server import RedisServer

WHOLE = body(stream=False, stream_options=None)
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path, gateway={"calls_max": 2}) as running:
        yield running


async def publish(one: Edge, *replicas: dict[str, Any], cold_start_s: float = 0.2) -> None:
    """The first pool as it is given; the other one cannot start any."""
    first = {"name": POOLS[0], "target": 1, "replicas": replicas, "cold_start_s": cold_start_s}
    other = {"name": POOLS[1], "target": 0, "replicas": [], "blocked": "2 failed starts"}
    fleet = {"v": 1, "seq": 1, "at_ms": 0, "pools": [first, other]}
    await one.redis.set("sluice:fleet", json.dumps(fleet))
    await one.parts.fleet.refresh()


def told_s(refused: Response, status: int) -> float:
    assert refused.status == status, refused.json
    told_ms = int(refused.headers["retry-after-ms"])
    assert int(refused.headers["retry-after"]) == max(1, -(-told_ms // 1000))
    return told_ms / 1000


async def beside(one: Edge, many: int = 1) -> list[Response]:
    """What is answered while so many calls do not end; then they leave."""
    answers: list[Response] = []

    async def ask(_: Response) -> None:
        while len(one.parts.accounts.open) < many:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        one.watch.passed_s += 8
        answers.append(await one.post(WHOLE))

    async def wait(_: Response) -> None:
        while not answers:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one.post(WHOLE, leave=ask if n == 0 else wait) for n in range(many)))
    await one.settled()
    return answers


async def test_g41_retry_after_of_a_full_gateway_follows_how_long_its_calls_last(one: Edge) -> None:
    one.upstream.behaviour = lambda _: fake.Script([fake.Stall()])
    (refused,) = await beside(one, many=2)
    assert 8 <= told_s(refused, 503) < 16, "two that have lasted 8 s: one ends about every 8 s"


async def test_g41_retry_after_of_a_full_waiting_room_is_when_its_pool_begins(one: Edge) -> None:
    await publish(one, cold_start_s=30.0)
    one.parts.places._waiting_room._bound = 1
    (refused,) = await beside(one)
    assert "waiting" in refused.json["error"]["message"]
    assert told_s(refused, 503) == 30.0


async def test_g41_retry_after_where_no_worker_answers_is_when_they_are_asked_again(
    one: Edge,
) -> None:
    await publish(one, one.replica("r1", address=NOWHERE), one.replica("r2", address=NOWHERE))
    assert told_s(await one.post(WHOLE), 503) <= 0.5
    await one.settled()


async def test_g41_retry_after_of_full_workers_follows_their_queue(one: Edge) -> None:
    one.upstream.behaviour = lambda _: fake.refusal(503, {"message": "busy"})
    told = []
    for running in (64, 640):
        await publish(one, one.replica("r1") | {"running": running})
        told.append(told_s(await one.post(WHOLE | {"max_tokens": 2000}), 503))
    assert told[1] > 10 > told[0]
    await one.settled()


async def test_g41_retry_after_of_an_upstream_is_the_soonest_of_them(one: Edge) -> None:
    for seconds in ("40", "20", "30"):
        busy = fake.refusal(503, {"message": "busy"}, (("retry-after", seconds),))
        one.upstream.scripts.append(busy)
    one.upstream.behaviour = lambda _: fake.refusal(503, {"message": "busy"})
    await publish(one, *(one.replica(f"r{n}") for n in range(3)))
    assert told_s(await one.post(WHOLE), 503) == 20.0
    await one.settled()


async def test_g41_retry_after_of_a_passed_deadline_is_when_the_pool_begins(one: Edge) -> None:
    await publish(one, cold_start_s=50.0)
    assert told_s(await one.post_and_outwait(WHOLE), 504) == 50.0
    await one.settled()
