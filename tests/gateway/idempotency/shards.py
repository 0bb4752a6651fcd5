"""Claims and tapes in a shard that is open, and a Redis that hangs."""

from __future__ import annotations

from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from gateway.idempotency.tapes import Tapes, TapeSettings
from tests.billing.limits.harness import open_shard
from tests.gateway.outages import stopped

__all__ = ["SHARD", "in_open_shard", "stopped"]

SHARD = keys.shard_of("org_1")


async def in_open_shard(redis: Redis, settings: TapeSettings) -> Tapes:
    await open_shard(Holds(redis), shard=SHARD)
    return Tapes(redis, settings)
