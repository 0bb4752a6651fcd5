"""Work that many callers want at the same moment and one task does. They share its result, and its
failure too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """`work` bounds its own time. When one caller leaves, it goes on for the others."""

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._running: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Join the running work, or begin it."""
        running, loop = self._running, asyncio.get_running_loop()
        if running is None or running.done() or running.get_loop() is not loop:
            running = self._running = loop.create_task(self._begin())
            running.add_done_callback(_look_at)
        return await asyncio.shield(running)

    async def _begin(self) -> T:
        return await self._work()


def _look_at(task: asyncio.Task[T]) -> None:
    """Retrieve a failure after all callers have left, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
