"""The rest of a worker: process and imports stay, the model goes. Guards the law that a worker
without its model takes no call, and that an open call never loses it."""

from __future__ import annotations

import asyncio
import logging

from workers.deployments.calls import OpenCalls
from workers.engines.base import EngineError, EngineLife

log = logging.getLogger(__name__)


class Rest:
    """Follows the last order, one step at a time. An order is given again until it is followed."""

    def __init__(self, engine: EngineLife, calls: OpenCalls) -> None:
        self._engine = engine
        self._calls = calls
        self._ordered_asleep = False
        self._following: asyncio.Task[None] | None = None
        self.is_waking = False

    @property
    def is_asleep(self) -> bool:
        return self._calls.asleep

    def order(self, *, asleep: bool) -> None:
        self._ordered_asleep = asleep
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._follow())

    async def leave(self) -> None:
        """Wait for the step under way."""
        self._ordered_asleep = self._calls.asleep
        if self._following is not None:
            await self._following

    async def _follow(self) -> None:
        while self._ordered_asleep != self._calls.asleep:
            try:
                await (self._sleep() if self._ordered_asleep else self._wake())
            except EngineError as error:
                log.error("%s", error)  # the engine is not well now, so it will be replaced
                return
            if self._ordered_asleep and not self._calls.asleep:
                return  # a call is open

    async def _sleep(self) -> None:
        if not len(self._calls):
            self._calls.asleep = True
            await self._engine.sleep()

    async def _wake(self) -> None:
        self.is_waking = True
        try:
            await self._engine.wake()
        finally:
            self.is_waking = False
        self._calls.asleep = False
