"""A caller who is refused while replicas are lost is told when they are expected back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        running.watch.stop()
        yield running


@pytest.mark.parametrize(("in_s", "told_ms"), [(34.0, 34_000), (2.5, 2_500), (-60.0, 1_000)])
async def test_retry_after_is_when_the_pool_is_expected_back(
    one: Edge, in_s: float, told_ms: int
) -> None:
    """Where it is overdue: soon. A start of this pool takes 0.2 s, which says nothing here."""
    back_ms = round((one.watch() + in_s) * 1000)
    await one.publish_fleet(others="has no room", ready_at_ms=back_ms, gone="cluster")
    refused = await one.post(body(), headers={"x-sluice-deadline-ms": "100"})
    assert (refused.status, refused.error_code) == (503, "server_is_overloaded")
    assert int(refused.headers["retry-after-ms"]) == pytest.approx(told_ms, abs=2)


async def test_call_that_may_wait_so_long_is_held_and_answered(one: Edge) -> None:
    back_ms = round((one.watch() + 20) * 1000)
    await one.publish_fleet(others="has no room", ready_at_ms=back_ms, gone="cluster")
    asking = asyncio.create_task(one.post(body(), headers={"x-sluice-deadline-ms": "60000"}))
    await one.waits()
    await one.publish_fleet(one.replica())
    assert (await asking).status == 200
