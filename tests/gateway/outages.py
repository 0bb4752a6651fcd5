"""Redis taken away from a whole gateway, and a ledger that makes good afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from time import time
from typing import Any

from redis.asyncio import Redis

from billing.db.engine import Store, open_store
from billing.decisions.writer import DecisionWriter
from billing.ledger.report import Outcome
from billing.prices.book import Component, PriceRate
from billing.prices.versions import put_into_force
from billing.spool.keeper import SpoolKeeper
from billing.tasks import end
from billing.verify import verify_all
from gateway.admin.limits.service import LimitService
from gateway.admin.use_cases import admin_store
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.billing.ledger_parts import SETTINGS, make_primer, make_reaper, make_writer
from tests.gateway.edge import OUTPUT_PRICE, SHARD, Edge
from tests.redis_server import RedisServer

BACK_WITHIN_S = 60.0


async def declare(one: Edge, mode: str | None, cap_nanousd: int | None = None) -> None:
    """What the organization wants while Redis is away."""
    limits = LimitService(admin_store(one.parts))
    await limits.set_outage(ORGANIZATION_ID, mode, cap_nanousd)


@contextmanager
def stopped(server: RedisServer) -> Iterator[None]:
    """It hangs: connections stand, and nothing is answered."""
    pid = server.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def killed(server: RedisServer) -> Iterator[None]:
    server.kill9()
    try:
        yield
    finally:
        server.start()


@contextmanager
def wiped(server: RedisServer) -> Iterator[None]:
    """Gone, and back with nothing."""
    server.kill9()
    try:
        yield
    finally:
        server.wipe()


OUTAGES: dict[str, Callable[[RedisServer], Any]] = {
    "stopped": stopped,
    "killed": killed,
    "wiped": wiped,
}


@asynccontextmanager
async def ledger(redis: Redis, data: Path) -> AsyncIterator[Store]:
    """Writer, primer, reaper and keeper over the gateway's own database."""
    store = open_store(f"sqlite:///{data / 'sluice.db'}")
    price_all(store)
    parts = [
        make_writer(redis, store),
        make_primer(redis, store, spool_root=data / "spool"),
        make_reaper(redis, store, data / "spool"),
        SpoolKeeper(data / "spool", store, SETTINGS, now=time),
        DecisionWriter(redis, store, SETTINGS, now=time),
    ]
    tasks = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield store
    finally:
        await end(*tasks)
        store.close()


def price_all(store: Store) -> None:
    """The version that `edge` publishes, in SQL."""
    parts = {Component.INPUT: 1_000_000_000, Component.OUTPUT: OUTPUT_PRICE}
    rates = [
        PriceRate(model=model, tier=tier, component=component, nanousd_per_mtok=price)
        for model in ("tale", "vectors")
        for tier in ("default", "priority", "flex")
        for component, price in parts.items()
    ]
    put_into_force(store, rates, by="test", now_us=1, effective_from_us=2, version_id="pv_1")


async def until(condition: Callable[[], Awaitable[bool]], within_s: float = BACK_WITHIN_S) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - Redis has no event for being back
            await asyncio.sleep(0.05)


async def whole(one: Edge, store: Store) -> int:
    """Every call that the spool knows is charged once, and every law of money holds: what was
    charged in all."""
    lines, closed = one.spooled()
    opened = {name.split()[1] for name in lines if name.startswith("opened")}
    assert opened == set(closed), "every call that was admitted has ended"

    async def is_booked() -> bool:
        report = await verify_all(
            store, now_us=round(time() * 1e6), spool_root=one.spool_root, redis=one.redis
        )
        laws = [check for check in report.checks if check.outcome is Outcome.BROKEN]
        money = await one.holds.money(ORGANIZATION_ID, f"org:{ORGANIZATION_ID}")
        owed = sum(call.amount_nanousd for call in closed.values())
        state.update(laws=laws, money=money, owed=owed)
        return not laws and (money.held_nanousd, money.spent.total_nanousd) == (0, owed)

    state: dict[str, Any] = {}
    try:
        await until(is_booked)
    except TimeoutError as late:
        raise AssertionError(state) from late
    assert await one.holds.open_count(SHARD) == 0
    assert one.parts.accounts.unsettled_count == 0
    return int(state["owed"])
