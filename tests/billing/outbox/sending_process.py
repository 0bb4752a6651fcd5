"""A sender of the outbox that a test kills: `python -m ... URL NOW_S`."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from pathlib import Path

from billing.db.engine import Store, open_store
from billing.outbox.keeper import OutboxKeeper
from billing.outbox.sender import WebhookSender, resolved

ROOT = Path(__file__).parents[3]


async def killed_while_sending(store: Store, came: asyncio.Event, now_s: float) -> None:
    """Let such a process send until something `came` at its receiver, and kill it there."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.billing.outbox.sending_process"),
        *(str(store.engine.url), str(now_s)),
        cwd=ROOT,
    )
    try:
        async with asyncio.timeout(120):
            await came.wait()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()


if __name__ == "__main__":
    url, now_s = sys.argv[1:]
    tls = ssl.create_default_context()
    sender = WebhookSender(["127.0.0.0/8"], 20.0, resolve=resolved, tls=tls)
    keeper = OutboxKeeper(
        *(open_store(url), sender),
        interval_s=1.0,
        keep_days=90.0,
        usage_interval_s=0.0,
        now=lambda: float(now_s),
    )
    asyncio.run(keeper.turn())
