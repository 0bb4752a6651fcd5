"""A gateway that commands can reach."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.gateway.commands.sluice import Sluice, ready
from tests.gateway.edge import Edge, edge
from tests.gateway.served import served
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


@pytest.fixture
async def sluice(one: Edge, tmp_path: Path) -> AsyncIterator[Sluice]:
    async with served(one.app) as base_url:
        yield ready(tmp_path / "ready", base_url)
