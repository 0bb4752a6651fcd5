"""What the composition root makes: parts that bear many callers at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.composition import REDIS_CONNECTIONS_MAX, _redis
from gateway.settings import GatewaySettings, LimiterSettings, Settings
from tests.redis_server import RedisServer


async def test_many_who_ask_redis_at_once_wait_for_a_connection(redis_server: RedisServer) -> None:
    """A thousand calls that enter a waiting room in one instant were told that it was out of
    reach: the client library refuses a question for which it has no connection left."""
    settings = Settings(
        data=Path("unused"),
        redis_url=redis_server.url,
        api_key="sk-sluice-0123456789abcdef",
        admin_key="admin",
        worker_secret="secret",
        gateway=GatewaySettings(limiter=LimiterSettings(connect_timeout_ms=30_000)),
    )
    async with _redis(settings) as redis:
        answers = await asyncio.gather(*(redis.incr("asked") for _ in range(1_000)))
        assert sorted(answers) == list(range(1, 1_001))
        assert len(await redis.client_list()) <= REDIS_CONNECTIONS_MAX + 2
