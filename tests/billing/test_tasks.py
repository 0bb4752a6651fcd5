"""A swallowed cancellation does not keep a task alive."""

from __future__ import annotations

import asyncio

import pytest

from billing.tasks import end


class Stubborn:
    """Swallows cancellations until it has been asked so often."""

    def __init__(self, gives_in_after: int) -> None:
        self._gives_in_after = gives_in_after
        self.asked = 0

    async def run(self) -> None:
        while self.asked < self._gives_in_after:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.asked += 1


async def test_a_task_that_swallows_a_cancellation_is_asked_again() -> None:
    stubborn = Stubborn(gives_in_after=2)
    task = asyncio.create_task(stubborn.run())
    await asyncio.sleep(0)
    await asyncio.wait_for(end(task), 30)
    assert task.done() and stubborn.asked == 2


async def test_who_is_cancelled_while_ending_a_task_ends_it_all_the_same() -> None:
    """Else what swallowed a cancellation would run on for ever, with nobody to ask it again."""
    stubborn = Stubborn(gives_in_after=3)
    task = asyncio.create_task(stubborn.run())
    await asyncio.sleep(0)
    ending = asyncio.create_task(end(task))
    await asyncio.sleep(0)
    ending.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await ending
    assert task.done() and stubborn.asked == 3


async def test_a_task_that_failed_keeps_its_exception() -> None:
    async def failing() -> None:
        raise ValueError("as it was")

    task = asyncio.create_task(failing())
    await asyncio.sleep(0)
    await end(task)
    assert isinstance(task.exception(), ValueError)
