"""A real Redis for what gateways tell each other."""

from tests.redis_fixtures import redis, redis_server

__all__ = ["redis", "redis_server"]
