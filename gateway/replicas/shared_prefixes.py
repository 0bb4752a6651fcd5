"""What gateways tell each other of the caches of replicas: which prompts were computed there.

A prompt is told as the hashes of its blocks, which are salted with its organization, in a stream
that each gateway adds to and reads on from where it was. Nothing waits for it, and a gateway that
misses a part of it knows less of caches and is wrong about nothing else.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.types import UNREADABLE
from gateway.replicas.placement import Computed, Placement

PREFIXES_KEY = "sluice:prefixes"
ROUNDS_MAX = 100
"""Entries of the stream. With ten gateways a second is kept, ten rounds of each."""
TTL_MS = 60_000


class SharedPrefixes:
    def __init__(self, redis: Redis, placement: Placement, gateway_id: str) -> None:
        self._redis = redis
        self._placement = placement
        self._own_id = gateway_id.encode()
        self._read_to: str | bytes = "0"

    async def exchange(self) -> None:
        """Tell what was computed for our calls, and hear what was for those of others. Raises
        RedisError; what was not told is told the next time."""
        untold = self._placement.untold
        news = tuple(untold)
        untold.clear()
        try:
            streams = await self._exchanged(news)
        except RedisError:
            newer = tuple(untold)
            untold.clear()
            untold.extend(news + newer)
            raise
        for _, entries in streams:
            for entry_id, entry in entries:
                self._read_to = entry_id
                if entry.get(b"by") != self._own_id:
                    self._hear(entry.get(b"computed", b""))

    async def _exchanged(self, news: Sequence[Computed]) -> Any:
        pipeline = self._redis.pipeline(transaction=False)
        if news:
            fields = {b"by": self._own_id, b"computed": msgspec.msgpack.encode(news)}
            pipeline.xadd(PREFIXES_KEY, fields, maxlen=ROUNDS_MAX, approximate=False)  # type: ignore[arg-type]
            pipeline.pexpire(PREFIXES_KEY, TTL_MS)
        pipeline.xread({PREFIXES_KEY: self._read_to}, count=ROUNDS_MAX)
        *_, streams = await pipeline.execute()
        return streams

    def _hear(self, entry: bytes) -> None:
        """One of another version tells what is not understood: nothing."""
        try:
            heard = msgspec.msgpack.decode(entry, type=tuple[Computed, ...])
        except UNREADABLE:
            return
        for each in heard:
            self._placement.hear(each)
