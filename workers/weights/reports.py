"""What nodes say of their checkpoints: the ids that each holds, and fetches under way.

Replicas tell a gateway, which keeps it in Redis; the controller reads it there. All of it may be
lost: a node that nobody knows of is merely not preferred.
"""

from collections.abc import Mapping
from typing import Annotated, cast

import msgspec
from redis.asyncio import Redis

HELD_KEY, FETCHES_KEY = "sluice:weights:held", "sluice:weights:fetches"
"""Hashes: `HeldWeights` by Ray's id of the node, `FetchProgress` by the id of the replica."""
REPORT_PATH = "/internal/v1/weights/report"
FRESH_MS = 10_000
"""A fetch that nobody told of for so long has ended, with its process."""
HELD_FOR_MS = 7 * 86_400_000
FIELDS_MAX = 1000
"""Of each hash. One that is full of what nobody removed is begun anew."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Id = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, msgspec.Meta(ge=0)]


class FetchProgress(msgspec.Struct, frozen=True):
    """One fetch at an instant. `bytes_per_s`: as measured since it began; 0 at first."""

    id: Id
    bytes_here: Count
    bytes_total: Count
    bytes_per_s: Count
    at_ms: int = 0

    @property
    def left_s(self) -> float | None:
        """How long what is missing takes; None while nobody knows."""
        left = max(0, self.bytes_total - self.bytes_here)
        if left == 0:
            return 0.0
        return left / self.bytes_per_s if self.bytes_per_s else None


class HeldWeights(msgspec.Struct, frozen=True):
    ids: Annotated[tuple[Id, ...], msgspec.Meta(max_length=1000)]
    at_ms: int = 0


class WeightsReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of one replica. `held`: what its node has, where it says. `fetch`: None is none."""

    node: Name
    replica: Name
    held: HeldWeights | None = None
    fetch: FetchProgress | None = None


async def keep_report(redis: Redis, report: WeightsReport, at_ms: int) -> None:
    """Raises redis.RedisError."""
    for key in (HELD_KEY, FETCHES_KEY):
        if await redis.hlen(key) > FIELDS_MAX:
            await redis.delete(key)
    if report.held is not None:
        held = msgspec.structs.replace(report.held, at_ms=at_ms)
        await redis.hset(HELD_KEY, report.node, msgspec.json.encode(held))
    if report.fetch is None:
        await redis.hdel(FETCHES_KEY, report.replica)
    else:
        fetch = msgspec.structs.replace(report.fetch, at_ms=at_ms)
        await redis.hset(FETCHES_KEY, report.replica, msgspec.json.encode(fetch))


async def read_fetches(redis: Redis, at_ms: int) -> Mapping[str, FetchProgress]:
    """Fetches under way, by replica. Raises redis.RedisError."""
    raw = cast(dict[bytes, bytes], await redis.hgetall(FETCHES_KEY))
    fetches = {id.decode(): msgspec.json.decode(v, type=FetchProgress) for id, v in raw.items()}
    return {id: fetch for id, fetch in fetches.items() if at_ms - fetch.at_ms < FRESH_MS}


async def read_held(redis: Redis, at_ms: int) -> Mapping[str, HeldWeights]:
    """What nodes hold, by Ray's id of the node. Raises redis.RedisError."""
    raw = cast(dict[bytes, bytes], await redis.hgetall(HELD_KEY))
    held = {id.decode(): msgspec.json.decode(v, type=HeldWeights) for id, v in raw.items()}
    return {id: each for id, each in held.items() if at_ms - each.at_ms < HELD_FOR_MS}
