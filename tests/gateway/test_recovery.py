"""The gateway's own recovering goes on, whatever is away meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from gateway import recovery
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
    await asyncio.wait_for(asked.wait(), 5)
    await asyncio.wait({keeping}, timeout=0.05)
    assert not keeping.done()
    keeping.cancel()
