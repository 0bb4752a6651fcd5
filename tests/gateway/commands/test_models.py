"""`sluice models apply` ends when a gateway serves what it has added."""

from __future__ import annotations

from threading import Timer

from redis import Redis

from gateway.catalog.catalog import REVISION_KEY
from gateway.commands.models import is_late
from tests.redis_server import RedisServer

LONG_S = 60.0
AT_ONCE_S = 0.0


def test_revision_that_a_gateway_takes_up_is_waited_for(redis_server: RedisServer) -> None:
    with Redis.from_url(redis_server.url) as redis:
        redis.set(REVISION_KEY, 6)
        assert is_late(redis_server.url, 7, AT_ONCE_S)
        later = Timer(0.2, redis.set, (REVISION_KEY, 7))
        later.start()
        assert not is_late(redis_server.url, 7, LONG_S)
        later.join()
        redis.delete(REVISION_KEY)


def test_no_gateway_is_waited_for_where_redis_is_away() -> None:
    assert not is_late("unix:///nowhere/redis.sock", 1, LONG_S)
