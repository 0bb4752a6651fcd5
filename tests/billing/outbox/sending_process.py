"""A sender of the outbox that a test kills: `python -m ... URL NOW_S`."""

from __future__ import annotations

import asyncio
import ssl
import sys

from billing.db.engine import open_store
from billing.outbox.keeper import OutboxKeeper
from billing.outbox.sender import WebhookSender, resolved

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
