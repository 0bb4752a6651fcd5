"""A scene for each test, as it asks for one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.redis_fixtures import redis, redis_server
from tests.redis_server import RedisServer
from tests.resilience.scene import Scene, scene

__all__ = ["redis", "redis_server"]

OpenScene = Callable[..., Awaitable[Scene]]


@pytest.fixture
async def open_scene(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> AsyncIterator[OpenScene]:
    """Opens one scene, which is closed after the test."""
    async with AsyncExitStack() as stack:

        async def open_it(**settings: Any) -> Scene:
            return await stack.enter_async_context(scene(redis_server, redis, tmp_path, **settings))

        yield open_it


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Every scenario is told both ways."""
    return bool(request.param)
