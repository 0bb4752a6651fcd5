"""The gateway's own recovering goes on, whatever is away meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from billing.limits.types import LimitsUnavailable
from gateway.call import recovery
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def test_locked_database_is_waited_out(one: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper that ends takes the gateway with it, and every stream."""
    asked = asyncio.Event()

    async def locked() -> None:
        if asked.is_set():
            await asyncio.Event().wait()
        asked.set()
        raise OperationalError("SELECT", {}, Exception("database is locked"))

    monkeypatch.setattr(recovery, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(one.parts.recovery, "_recover", locked)
    await one.redis.delete(recovery.RECOVERED_KEY)
    keeping = asyncio.create_task(one.parts.recovery.run())
    await asyncio.wait_for(asked.wait(), 30)
    await asyncio.wait({keeping}, timeout=0.05)
    assert not keeping.done()
    keeping.cancel()


async def test_redis_emptied_while_a_gateway_recovers_is_recovered_again(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same process answers, and yet nothing of what was replayed is there any more."""
    recovering = one.parts.recovery
    real = recovering._recover
    rounds: list[int] = []

    async def emptied_after() -> None:
        await real()
        rounds.append(len(rounds))
        if len(rounds) == 1:
            await one.redis.flushall()

    monkeypatch.setattr(recovering, "_recover", emptied_after)
    await one.redis.delete(recovery.RECOVERED_KEY)
    with pytest.raises(LimitsUnavailable):
        await recovering.turn()
    assert not await one.redis.exists(recovery.RECOVERED_KEY), "the primer waits for us"
    await recovering.turn()
    assert await one.redis.hkeys(recovery.RECOVERED_KEY) == [one.gateway_id.encode()]
    before = len(rounds)  # the gateway's own turns come between them
    await recovering.turn()
    assert len(rounds) == before >= 2


async def test_leases_are_renewed_although_the_clock_was_put_back(one: Edge) -> None:
    """By hours, while a call runs: its lease is Redis' own, and would lapse."""
    accounts = one.parts.accounts
    now_s = time.time()
    last = {"future": now_s + 7_200.0, "recent": now_s - 0.01, "due": now_s - 60.0}
    calls: Any = {name: SimpleNamespace(rid=name, renewed_s=at) for name, at in last.items()}
    accounts.open = calls
    assert {call.rid for call in accounts._due(now_s)} == {"future", "due"}
    accounts.open = {}


async def test_gateway_that_is_long_silent_is_forgotten_with_its_marks(one: Edge) -> None:
    """Each new spool is another gateway: those that are gone would pile up for ever."""
    turn = one.parts.recovery.turn
    now_ms = round(time.time() * 1000)
    long_ago_ms = now_ms - recovery.FORGOTTEN_MS - 1000
    await one.redis.zadd(recovery.GATEWAYS_KEY, {"gw-old": long_ago_ms, "gw-late": now_ms - 60_000})
    for name in ("gw-old", "gw-late"):
        await one.redis.hset(recovery.RECOVERED_KEY, name, "run")
        await one.redis.set(f"{recovery.RECOVERING_KEY}:{name}", 1)
    await turn()
    left = {one.gateway_id.encode(), b"gw-late"}
    assert set(await one.redis.zrange(recovery.GATEWAYS_KEY, 0, -1)) == left
    assert set(await one.redis.hkeys(recovery.RECOVERED_KEY)) == left
    rounds = await one.redis.keys(f"{recovery.RECOVERING_KEY}:*")
    assert {key.rpartition(b":")[2] for key in rounds} == left
