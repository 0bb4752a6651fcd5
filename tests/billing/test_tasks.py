"""A swallowed cancellation does not keep a task alive."""

from __future__ import annotations

import asyncio

import pytest

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
    await asyncio.wait_for(end(task), 30)
    assert task.done() and asked == 2


async def test_who_is_cancelled_while_ending_a_task_ends_it_all_the_same() -> None:
    """Else what swallowed a cancellation would run on for ever, with nobody to ask it again."""
    asked = 0

    async def stubborn() -> None:
        nonlocal asked
        while asked < 3:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                asked += 1

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    ending = asyncio.create_task(end(task))
    await asyncio.sleep(0)
    ending.cancel()
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await ending
    assert task.done() and asked == 3


async def test_a_task_that_failed_keeps_its_exception() -> None:
    async def failing() -> None:
        raise ValueError("as it was")

    task = asyncio.create_task(failing())
    await asyncio.sleep(0)
    await end(task)
    assert isinstance(task.exception(), ValueError)
