"""Ending tasks for certain: Python 3.11's `wait_for` may lose a cancellation.

So the end is asked for until it comes.
(https://github.com/python/cpython/issues/86296, mended in 3.12; redis-py's connections use it.)
"""

import asyncio
from typing import Any

ASK_AGAIN_S = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and wait; the tasks' own outcomes stay in them.

    Who is cancelled meanwhile sees them to their end first: a task that lost its cancellation would
    run on for ever, with nobody to ask it again.
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
