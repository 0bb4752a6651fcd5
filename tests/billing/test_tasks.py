"""A swallowed cancellation does not keep a task alive."""

from __future__ import annotations

import asyncio

from billing.tasks import end


async def test_a_task_that_swallows_a_cancellation_is_asked_again() -> None:
    asked = 0

    async def stubborn() -> None:
        nonlocal asked
        while asked < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                asked += 1

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(end(task), 5)
    assert task.done() and asked == 2


async def test_a_task_that_failed_keeps_its_exception() -> None:
    async def failing() -> None:
        raise ValueError("as it was")

    task = asyncio.create_task(failing())
    await asyncio.sleep(0)
    await end(task)
    assert isinstance(task.exception(), ValueError)
