"""The one writer of a cluster: check who asks, then write, and nobody in between.

Guards that after a write or a claim of one leader no write of an earlier leader is done, however
late it arrives. Knows neither Ray nor HTTP.
"""

import asyncio
import logging
from typing import Protocol

from workers.writer.writes import Leader, Order, Write, may_write

log = logging.getLogger(__name__)


class LeaderRefused(Exception):
    """A higher leader has written: the one who asks does not lead any more."""

    def __init__(self, leader: Leader, highest: Leader) -> None:
        super().__init__(
            f"epoch {leader.epoch} of {leader.holder}: {highest.holder} leads with "
            f"epoch {highest.epoch}"
        )
        self.highest = highest


class LeaderStore(Protocol):
    """Where the highest leader outlives the writer."""

    async def read(self) -> Leader: ...

    async def put(self, leader: Leader) -> None:
        """Returns when the leader would be read again after any kill."""
        ...


class Effects(Protocol):
    """The cluster. Raises RayUnavailable or RayRefused."""

    async def apply(self, write: Write) -> None: ...


class Writer:
    """Does one order after the other. An order ends when its outcome is known, however long that
    takes, so that no later one overtakes it."""

    def __init__(self, store: LeaderStore, effects: Effects) -> None:
        self._store = store
        self._effects = effects
        self._turn = asyncio.Lock()
        self._highest: Leader | None = None

    async def highest(self) -> Leader:
        async with self._turn:
            return await self._read()

    async def do(self, order: Order) -> None:
        """Raises LeaderRefused, RayRefused and RayUnavailable."""
        async with self._turn:
            highest = await self._read()
            if not may_write(order.leader, highest):
                raise LeaderRefused(order.leader, highest)
            if order.leader != highest:
                await self._store.put(order.leader)
                self._highest = order.leader
                log.info("%s leads with epoch %d", order.leader.holder, order.leader.epoch)
            await self._effects.apply(order.write)

    async def _read(self) -> Leader:
        if self._highest is None:
            self._highest = await self._store.read()
        return self._highest
