"""What is taken for a call is given back: on every way out, and no more than it should be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing import tasks
from billing.limits.types import LimitsUnavailable
from gateway.upstream import fake
from tests.gateway.edge import Edge, Response, body, edge, story
from tests.gateway.outages import declare
from tests.redis_server import RedisServer

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


@pytest.fixture
async def rare(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """One request in a minute."""
    async with edge(redis_server, redis, tmp_path, limits={"requests_per_minute": 1}) as running:
        yield running


async def test_call_that_is_cancelled_again_and_again_on_its_way_in_leaves_nothing(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "ASK_AGAIN_S", 0.01)
    holds = one.parts.accounts._holds
    quick, quick_settle = holds.admit, holds.settle
    admitted = asyncio.Event()

    async def slow(*args: Any, **named: Any) -> Any:
        answer = await quick(*args, **named)
        admitted.set()
        await asyncio.sleep(0.1)
        return answer

    async def slow_settle(*args: Any, **named: Any) -> Any:
        await asyncio.sleep(0.1)
        return await quick_settle(*args, **named)

    monkeypatch.setattr(holds, "admit", slow)
    monkeypatch.setattr(holds, "settle", slow_settle)

    async def leave_at_once(_: Response) -> None:
        await admitted.wait()

    await one.post(body(), leave=leave_at_once)
    await asyncio.sleep(0.15)
    (call,) = (await one.settled()).values()
    assert (call.status, call.amount_nanousd) == ("cancelled", 0)


@pytest.mark.parametrize("is_taken", [True, False])
async def test_call_whose_admission_was_never_answered_leaves_nothing(
    one: Edge, monkeypatch: pytest.MonkeyPatch, is_taken: bool
) -> None:
    await declare(one, "deny")
    holds = one.parts.accounts._holds
    quick = holds.admit

    async def unanswered(*args: Any, **named: Any) -> Any:
        if is_taken:
            await quick(*args, **named)
        raise LimitsUnavailable("redis did not answer in time")

    monkeypatch.setattr(holds, "admit", unanswered)
    response = await one.post(body())
    assert (response.status, response.error_code) == (503, "server_is_overloaded")
    assert await one.settled() == {}, "nothing was spooled"
    monkeypatch.setattr(holds, "admit", quick)
    assert (await one.post(body())).status == 200
    await one.settled()


@pytest.mark.parametrize("stream", [True, False])
async def test_worker_that_ignores_the_ceiling_is_stopped_at_it(one: Edge, stream: bool) -> None:
    one.upstream.behaviour = lambda _: story(frames=40, tokens_a_frame=7)
    response = await one.post(body(stream=stream, stream_options=None, max_tokens=64))
    assert response.status == 200
    (call,) = (await one.settled()).values()
    assert (call.output, call.finish_reason) == (63, "length")


async def test_leaving_before_the_first_token_keeps_the_request_counted(rare: Edge) -> None:
    """Or prompts would be computed without a limit for who hangs up in time."""
    rare.upstream.scripts.append(fake.Script([fake.Stall()]))

    async def once_asked(_: Response) -> None:
        while not rare.upstream.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await rare.post(body(), leave=once_asked)
    assert (await rare.post(body())).status == 429
    await rare.settled()


async def test_call_that_reached_no_worker_gives_its_request_back(rare: Edge) -> None:
    await rare.publish_fleet(rare.replica(address=NOWHERE))
    lost = await rare.post(body(), headers={"x-sluice-deadline-ms": "400"})
    assert lost.status in (503, 504)
    await rare.publish_fleet(rare.replica())
    assert (await rare.post(body())).status == 200
    await rare.settled()
