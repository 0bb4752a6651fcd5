"""Work that is done once for everybody who wants it at the same moment."""

from __future__ import annotations

import asyncio

from billing.limits.shared import Shared


class Work:
    def __init__(self) -> None:
        self.begun = 0
        self.may_end = asyncio.Event()
        self.fails = False

    async def __call__(self) -> int:
        self.begun += 1
        await self.may_end.wait()
        if self.fails:
            raise OSError("away")
        return self.begun


async def test_many_share_one_and_who_comes_later_begins_another() -> None:
    work = Work()
    shared = Shared(work)
    asked = [asyncio.create_task(shared()) for _ in range(100)]
    await asyncio.sleep(0)
    work.may_end.set()
    assert await asyncio.gather(*asked) == [1] * 100
    assert await shared() == 2


async def test_who_leaves_ends_it_for_nobody_else() -> None:
    work = Work()
    shared = Shared(work)
    asked = [asyncio.create_task(shared()) for _ in range(3)]
    await asyncio.sleep(0)
    asked[0].cancel()
    await asyncio.sleep(0)
    work.may_end.set()
    assert await asyncio.gather(*asked[1:]) == [1, 1]


async def test_failure_is_shared_too_and_not_kept() -> None:
    work = Work()
    work.fails = True
    shared = Shared(work)
    asked = [asyncio.create_task(shared()) for _ in range(3)]
    await asyncio.sleep(0)
    work.may_end.set()
    failed = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(error, OSError) for error in failed)
    work.fails = False
    assert await shared() == 2
