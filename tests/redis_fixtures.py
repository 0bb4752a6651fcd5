"""Pytest fixtures over `RedisServer`; a conftest imports what its folder needs."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.redis_server import RedisServer


@pytest.fixture(scope="package")
def redis_server() -> Iterator[RedisServer]:
    """One server for the folder's tests; who kills it, starts it again."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
    ):
        yield server


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    """A client of an emptied server."""
    client = redis_server.client()
    await client.flushall()
    yield client
    await client.aclose()
