"""Nodes that an administrator wants to be drained: gateways say which, the controller does it."""

from typing import cast

from redis.asyncio import Redis

DRAINS_KEY = "sluice:nodes:drains"
"""A hash: seconds to the deadline, by node."""


async def ask_to_drain(redis: Redis, node_id: str, deadline_s: float) -> None:
    """Raises redis.RedisError."""
    await redis.hset(DRAINS_KEY, node_id, str(deadline_s))


async def take_drains(redis: Redis) -> dict[str, float]:
    """Seconds by node; none of them is told again. Raises redis.RedisError."""
    async with redis.pipeline(transaction=True) as both:
        both.hgetall(DRAINS_KEY)
        both.delete(DRAINS_KEY)
        drains, _ = cast(tuple[dict[bytes, bytes], int], await both.execute())
    return {id.decode(): float(deadline_s) for id, deadline_s in drains.items()}
