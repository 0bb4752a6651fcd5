"""When silence is absence: time as our own event loop lives it.

A server that says nothing may be gone or late. It may also be this process that was late to listen.
So a bound is not a span of the clock but BEATS looks, each a turn of the loop. A stretch in which
the loop could do nothing, however long, is one look. On a busy machine the looks, and so the bound,
are further apart. Only looks in a row that find nothing are absence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

BEATS = 20


@dataclass(slots=True)
class Silence:
    """The silence of one connection. Call `heard` when anything came, and `looked` at every
    look."""

    _looks: int = 0

    def note(self) -> None:
        self._looks = 0

    def looked(self) -> bool:
        """Count one look in vain, and say whether they are too many."""
        self._looks += 1
        return self._looks >= BEATS


@asynccontextmanager
async def lived(seconds: float) -> AsyncIterator[None]:
    """`asyncio.timeout(seconds)` over time that the loop has lived. Raises TimeoutError."""
    async with asyncio.timeout(None) as bound:
        looking = asyncio.create_task(_look(bound, seconds / BEATS))
        try:
            yield
        finally:
            looking.cancel()


async def _look(bound: asyncio.Timeout, every_s: float) -> None:
    for _ in range(BEATS):
        await asyncio.sleep(every_s)
    bound.reschedule(asyncio.get_running_loop().time())
