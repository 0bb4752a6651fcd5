"""Ending tasks for certain: Python 3.11's `wait_for` may lose a cancellation.

So the end is asked for until it comes.
(https://github.com/python/cpython/issues/86296, mended in 3.12; redis-py's connections use it.)
"""

import asyncio
from typing import Any

ASK_AGAIN_S = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel and wait; the tasks' own outcomes stay in them."""
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=ASK_AGAIN_S)
