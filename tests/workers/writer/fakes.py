"""A cluster and a store for the writer, in memory."""

import asyncio

from workers.writer.writes import NOBODY, Leader, Write


class MemoryStore:
    """Outlives the writers that use it."""

    def __init__(self) -> None:
        self.leader = NOBODY

    async def read(self) -> Leader:
        return self.leader

    async def put(self, leader: Leader) -> None:
        self.leader = leader


class FakeCluster:
    """Remembers what was written. It can be slow, or answer with `error`."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.error: Exception | None = None
        self.begun = asyncio.Event()
        self._may_go_on = asyncio.Event()
        self._may_go_on.set()

    def hold(self) -> None:
        self._may_go_on.clear()

    def go_on(self) -> None:
        self._may_go_on.set()

    async def apply(self, write: Write) -> None:
        self.begun.set()
        await self._may_go_on.wait()
        if self.error is not None:
            raise self.error
        self.writes.append(write)
