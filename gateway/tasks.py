"""Ending a task for certain: a library may lose a cancellation, so ask until it ends."""

import asyncio
from typing import Any

ASK_AGAIN_S = 1.0


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel and wait; the task's own outcome stays in it."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=ASK_AGAIN_S)
