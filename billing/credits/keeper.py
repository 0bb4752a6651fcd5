"""Keeps credits true in the ledger process: publishes the standings of organizations, and books
grants that have ended. The process may be killed at any time, and outages are waited out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.credits.grants import book_ends
from billing.credits.lines import CreditPublisher
from billing.db.engine import Store
from billing.settings import LedgerSettings

log = logging.getLogger("sluice.ledger.credits")

MICROSECONDS = 1_000_000


class CreditKeeper:
    """`now` is epoch seconds, `tick` a monotonic clock."""

    def __init__(
        self,
        redis: Redis,
        store: Store,
        settings: LedgerSettings,
        *,
        now: Callable[[], float],
        tick: Callable[[], float],
    ) -> None:
        self._publisher = CreditPublisher(redis, store)
        self._publishing = asyncio.Lock()
        self._store = store
        self._settings = settings
        self._now = now
        self._tick = tick
        self._next_ends = 0.0

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.turn()
            except (RedisError, OSError, SQLAlchemyError) as error:
                log.warning("credits are not published: %s", error)
            await asyncio.sleep(self._settings.publish_interval_s)

    async def turn(self) -> None:
        if self._tick() >= self._next_ends:
            await asyncio.to_thread(book_ends, self._store, self._now_us())
            self._next_ends = self._tick() + self._settings.mark_interval_s
        await self.publish()

    async def publish(self) -> None:
        async with self._publishing:
            await self._publisher.publish(self._now_us())

    def _now_us(self) -> int:
        return int(self._now() * MICROSECONDS)
