"""What gateways tell each other of breakers that opened, closed or cool down.

Each change goes into a stream, which every gateway reads on from where it was, a few times a second
and beside the calls. A gateway that starts reads what is there. Redis that is away costs nothing
but what other gateways have found out.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.types import UNREADABLE
from gateway.health.breakers import Breakers
from routing.health.breaker import HealthReport

log = logging.getLogger(__name__)

HEALTH_KEY = "sluice:health"
ENTRIES_MAX = 1_000
TTL_MS = 15 * 60_000
"""Longer than any breaker stays open."""
EVERY_S = 0.2

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(dict[str, HealthReport])


class SharedHealth:
    def __init__(
        self,
        redis: Redis,
        breakers: Breakers,
        replicas: Callable[[], Collection[str]],
        gateway_id: str,
    ) -> None:
        """`replicas` says which are there: of others nothing is remembered."""
        self._redis = redis
        self._breakers = breakers
        self._replicas = replicas
        self._own_id = gateway_id.encode()
        self._read_to: str | bytes = "0"
        self._is_away = False

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(EVERY_S)

    async def refresh(self) -> None:
        """Tell what changed here, and hear what changed elsewhere."""
        untold = self._breakers.untold
        news = dict(untold)
        untold.clear()
        try:
            streams = await self._exchanged(news)
            self._is_away = False
        except RedisError as away:
            untold.update(news | dict(untold))
            if not self._is_away:
                log.warning("health of places as other gateways see it cannot be read: %s", away)
            self._is_away = True
            return
        for _, entries in streams:
            for entry_id, entry in entries:
                self._read_to = entry_id
                if entry.get(b"by") != self._own_id:
                    self._hear(entry.get(b"reports", b""))
        self._breakers.forget(self._replicas())

    async def _exchanged(self, news: Mapping[str, HealthReport]) -> Any:
        pipeline = self._redis.pipeline(transaction=False)
        if news:
            fields = {b"by": self._own_id, b"reports": _ENCODER.encode(news)}
            pipeline.xadd(HEALTH_KEY, fields, maxlen=ENTRIES_MAX, approximate=False)  # type: ignore[arg-type]
            pipeline.pexpire(HEALTH_KEY, TTL_MS)
        pipeline.xread({HEALTH_KEY: self._read_to}, count=ENTRIES_MAX)
        *_, streams = await pipeline.execute()
        return streams

    def _hear(self, reports: bytes) -> None:
        """One of another version may say what is not understood: nothing."""
        try:
            heard = _DECODER.decode(reports)
        except UNREADABLE:
            return
        for scope, report in heard.items():
            self._breakers.hear(scope, report)
