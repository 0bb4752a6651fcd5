"""Parts of the ledger process wired for tests, and short ways to their effects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.keys import SHARDS
from billing.limits.types import ScopeLimits
from billing.recovery.primer import Primer
from billing.recovery.reaper import Reaper
from billing.settings import LedgerSettings
from billing.spool.orphans import Orphans
from billing.tasks import end
from billing.types import OpenedCall
from billing.writer.stream import UsageStreams
from billing.writer.writer import Writer

SETTINGS = LedgerSettings(
    block_ms=20,
    linger_ms=0,
    retry_after_s=0.02,
    recovery_grace_s=0.4,
    gateway_silent_s=2.0,
    orphan_after_s=0.001,
)


def make_writer(redis: Redis, store: Store, settings: LedgerSettings = SETTINGS) -> Writer:
    streams = UsageStreams(redis, settings.consumer)
    return Writer(streams, store, settings, now=time.time, tick=time.monotonic)


def make_reaper(redis: Redis, store: Store, spool_root: Path) -> Reaper:
    return Reaper(redis, Holds(redis), store, spool_root, SETTINGS, now=time.time)


def make_primer(
    redis: Redis,
    store: Store,
    opened: list[str] | None = None,
    settings: LedgerSettings = SETTINGS,
    spool_root: Path = Path("no-such-folder"),
) -> Primer:
    async def on_open(run_id: str) -> None:
        if opened is not None:
            opened.append(run_id)

    holds = Holds(redis)
    return Primer(
        *(redis, holds, store, settings),
        now=time.time,
        tick=time.monotonic,
        spools=Orphans(spool_root, holds, store, now=time.time),
        on_open=on_open,
    )


@asynccontextmanager
async def writing(writer: Writer) -> AsyncIterator[Writer]:
    """The writer runs meanwhile, and has ended afterwards."""
    task = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        await end(task)


async def open_shards(redis: Redis) -> None:
    """As after a priming that found nothing spent."""
    holds = Holds(redis)
    epoch = f"{await holds.run_id()}:1"
    for shard in range(SHARDS):
        await holds.begin_priming(shard, epoch)
        last_id = await holds.last_stream_id(shard)
        assert await holds.prime(shard, {}, last_id, epoch)


def unlimited(opened: OpenedCall) -> list[ScopeLimits]:
    return [ScopeLimits(scope=scope) for scope in opened.scopes]


async def eventually(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - SQL has no event to wait for
            await asyncio.sleep(0.02)
