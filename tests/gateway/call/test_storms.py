"""Clients that leave at every step, of every route, while workers fail: nothing stays open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID
from tests.gateway.api.asgi import ask
from tests.gateway.edge import SHARD, Edge, edge
from tests.gateway.storms import USERS, Storm
from tests.redis_server import RedisServer

OF_USERS, OF_MODEL = f"key:{KEY_ID}/user:*", f"org:{ORGANIZATION_ID}/model:tale"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """Three replicas, and limits of calls at once that the storm runs into: of each of its users,
    and of a model."""
    async with edge(redis_server, redis, tmp_path) as running:
        await running.publish_fleet(*(running.replica(f"r{n}") for n in range(3)))
        for scope in (OF_USERS, OF_MODEL):
            path = f"/admin/v1/limits/{scope}"
            status, told = await ask(running.app, "PUT", path, b'{"concurrency": 9}', "admin")
            assert status == 200, told
        yield running


async def departures(one: Edge, seed: int, many: int) -> None:
    storm = Storm(one, Random(seed))
    await storm.rage(until=lambda storm: storm.departed >= many)
    slots = one.parts.accounts.slots
    limited = [f"key:{KEY_ID}/user:", f"org:{ORGANIZATION_ID}/model:tale"]
    counted = [name for name in slots._scopes if name.startswith(tuple(limited))]
    assert len(counted) == len(USERS) + 1, "calls were counted under each limit"
    assert {slots.open_in(name) for name in counted} == {0}
    for key in await one.redis.keys(f"{keys.meter_key(SHARD, '*')}"):
        assert await one.redis.type(key) != b"zset", f"{key!r} has leases still"
    for claim in await one.redis.keys(f"{keys.tag(SHARD)}:idem:key:*"):
        assert await one.redis.hget(claim, "s") != b"running", claim
    assert one.parts.once.replaying.followers == 0
    refused = one.parts.observed.tally.refused
    assert refused.get((429, "rate_limit_exceeded")), "the limits were run into"


async def test_storm_of_leaving_clients_and_failing_workers_leaves_nothing_open(one: Edge) -> None:
    await departures(one, seed=1, many=120)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_ten_thousand_clients_that_left_have_left_nothing_open(one: Edge) -> None:
    await departures(one, seed=2, many=10_000)
