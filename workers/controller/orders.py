"""Orders of an operator, by pool, in Redis: a gateway writes them, the controller reads them.

One order a pool, for `KEEP_S`. A later one takes its place. A controller that takes over within
that time carries it out once more, which changes nothing where it stands.
"""

from collections.abc import Mapping, Sequence

import msgspec
from redis.asyncio import Redis

from workers.autoscaling.demand import PoolOrder

KEEP_S = 20


def order_key(pool: str) -> str:
    return f"sluice:order:{pool}"


class PoolOrders:
    """Raises `redis.RedisError` on outage."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def give(self, pool: str, order: PoolOrder) -> None:
        await self._redis.set(order_key(pool), msgspec.json.encode(order), ex=KEEP_S)

    async def read(self, pools: Sequence[str]) -> Mapping[str, PoolOrder]:
        if not pools:
            return {}
        values = await self._redis.mget([order_key(pool) for pool in pools])
        return {
            pool: msgspec.json.decode(value, type=PoolOrder)
            for pool, value in zip(pools, values, strict=True)
            if value is not None
        }
