"""Nodes that are to be drained: gateways and the watchers of notices say which, the controller does
it. Gateways hear of it at once, before the controller publishes what it did."""

from collections.abc import Mapping
from typing import cast

import msgspec
from redis.asyncio import Redis

DRAINS_KEY = "sluice:nodes:drains"
"""A hash: a `DrainOrder` by node."""
LEAVING_KEY = "sluice:nodes:leaving"
"""A hash: when a node ends, in epoch milliseconds, by node."""
FORGET_MS = 600_000
"""So long after its end a node is still marked."""
BY_HAND = "drained by an administrator"


class DrainOrder(msgspec.Struct, frozen=True):
    deadline_s: float
    why: str = BY_HAND


async def ask_to_drain(redis: Redis, node_id: str, deadline_s: float, why: str = BY_HAND) -> None:
    """Have a node end within `deadline_s`, and no new call go there. Raises redis.RedisError."""
    order = msgspec.json.encode(DrainOrder(deadline_s, why))
    await redis.hset(DRAINS_KEY, node_id, order)
    seconds, microseconds = await redis.time()
    now_ms = seconds * 1000 + microseconds // 1000
    await mark_leaving(redis, {node_id: now_ms + round(deadline_s * 1000)}, now_ms)


async def mark_leaving(redis: Redis, deadlines_ms: Mapping[str, int], now_ms: int) -> None:
    """Tell gateways of nodes that leave. What was said first stands. Raises redis.RedisError."""
    marks = cast(dict[bytes, bytes], await redis.hgetall(LEAVING_KEY))
    old = [id for id, ends_ms in marks.items() if int(ends_ms) + FORGET_MS < now_ms]
    async with redis.pipeline(transaction=False) as writes:
        for id, ends_ms in deadlines_ms.items():
            writes.hsetnx(LEAVING_KEY, id, ends_ms)
        if old:
            writes.hdel(LEAVING_KEY, *old)
        await writes.execute()


def deadlines_s(marks: Mapping[bytes, bytes]) -> dict[str, float]:
    """When nodes end, as it is marked."""
    return {id.decode(): int(ends_ms) / 1000 for id, ends_ms in marks.items()}


async def read_drains(redis: Redis) -> dict[str, DrainOrder]:
    """By node. Raises redis.RedisError."""
    drains = cast(dict[bytes, bytes], await redis.hgetall(DRAINS_KEY))
    return {id.decode(): msgspec.json.decode(raw, type=DrainOrder) for id, raw in drains.items()}


async def forget_drain(redis: Redis, node_id: str) -> None:
    """Raises redis.RedisError."""
    await redis.hdel(DRAINS_KEY, node_id)
