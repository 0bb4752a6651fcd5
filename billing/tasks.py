"""Ends tasks for certain. Python 3.11's `wait_for` may lose a cancellation, so the cancellation is
repeated until the task ends.

(https://github.com/python/cpython/issues/86296, mended in 3.12; redis-py's connections use it.)
"""

import asyncio
from typing import Any

ASK_AGAIN_S = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for them. The outcome of each stays in it.

    A caller that is cancelled meanwhile still waits for the tasks to end. A task that lost its
    cancellation would else run on for ever, and nobody would cancel it again.
    """
    left: asyncio.CancelledError | None = None
    while running := {task for task in tasks if not task.done()}:
        for task in running:
            task.cancel()
        try:
            await asyncio.wait(running, timeout=ASK_AGAIN_S)
        except asyncio.CancelledError as again:
            left = again
    if left is not None:
        raise left
