"""A change by another gateway ends what is known here of keys, whatever it falls into."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from billing.prices.book import PriceBook
from gateway.catalog.catalog import CatalogKeeper
from gateway.catalog.tokenizers import Checkpoints, CheckpointTokens
from gateway.errors import ApiError
from gateway.settings import GatewaySettings
from gateway.tenants.auth import KeyDirectory, Principal
from gateway.tenants.ids import key_digest
from gateway.tenants.revision import RevisionWatch
from gateway.tenants.store import CatalogRows, TenantStore

BEARER = "Bearer sk"
USE, CHANGE, REVOKE = "use", "change", "revoke"
EVENTS = st.lists(st.sampled_from((USE, CHANGE, REVOKE)), max_size=4)
LOOKED_WITHIN_S = 30.0
NOBODY = Redis.from_url("unix:///nobody/listens")


class Database:
    """One key, and the revision that every commit raises; `loading` runs while a catalog is read,
    before the reader has its own revision."""

    def __init__(self) -> None:
        self.revision_now = 1
        self.is_revoked = False
        self.looks = 0
        self.is_away = False
        self.loading: Callable[[], None] = lambda: None
        self.gate = threading.Event()

    def change(self) -> None:
        self.revision_now += 1

    def revoke(self) -> None:
        self.is_revoked = True
        self.change()

    # --- as `TenantStore` and `Keys` are asked -----------------------------------------------

    def revision(self) -> int:
        if self.is_away:
            raise OperationalError("SELECT", {}, Exception("away"))
        self.looks += 1
        return self.revision_now

    def suspended(self) -> frozenset[str]:
        return frozenset()

    def catalog(self) -> CatalogRows:
        self.loading()
        return CatalogRows(self.revision_now, [], [], [])

    async def find(self, digest: bytes) -> Principal | None:
        return None if self.is_revoked else Principal("org", "proj", "key", ())

    async def secrets_since(self, created_us: int) -> tuple[int, frozenset[bytes]]:
        return 0, frozenset([key_digest("sk")])


class Edge:
    """What a gateway knows of keys. Its clock stands still: nothing ends by its time to live."""

    def __init__(self) -> None:
        self.database = Database()
        store = cast(TenantStore, self.database)
        self.keys = KeyDirectory(self.database, lambda: 1000.0)
        self.watch = RevisionWatch(store, on_change=self.keys.forget, poll_s=0.001)
        checkpoints = Checkpoints(CheckpointTokens)
        self.catalog = CatalogKeeper(
            *(store, NOBODY, checkpoints),
            watch=self.watch,
            load_prices=lambda: PriceBook(()),
            poll_s=0.001,
            clock=lambda: 1000.0,
        )

    async def admits(self) -> bool:
        try:
            await self.keys.authenticate(BEARER)
        except ApiError:
            return False
        return True

    async def have(self, event: str) -> None:
        if event == USE:
            await self.admits()
        elif event == CHANGE:
            self.database.change()
        else:
            self.database.revoke()

    async def poll(self, meanwhile: Sequence[str]) -> None:
        """One poll of the catalog; `meanwhile` falls between its look and what it reads."""
        loop = asyncio.get_running_loop()
        left = list(meanwhile)

        def fall() -> None:
            while left:
                asyncio.run_coroutine_threadsafe(self.have(left.pop(0)), loop).result()

        self.database.loading = fall
        await self.catalog.refresh()

    async def until_looked_again(self) -> None:
        """Until a look has begun after now, and ended: one of two who look had begun another."""
        looks = self.database.looks
        async with asyncio.timeout(LOOKED_WITHIN_S):
            while self.database.looks <= looks + 2:  # noqa: ASYNC110 - a thread counts them
                await asyncio.sleep(0.001)


@given(st.lists(st.tuples(EVENTS, EVENTS), max_size=4))
def test_g48_revoked_key_works_no_longer_than_until_the_next_poll(
    polls: list[tuple[list[str], list[str]]],
) -> None:
    async def live() -> None:
        edge = Edge()
        for before, meanwhile in polls:
            for event in before:
                await edge.have(event)
            was_revoked = edge.database.is_revoked
            await edge.poll(meanwhile)
            if was_revoked:
                assert not await edge.admits()
        await edge.have(REVOKE)
        await edge.poll(())
        assert not await edge.admits()

    asyncio.run(live())


@asynccontextmanager
async def running(edge: Edge) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(edge.watch.run()), asyncio.create_task(edge.catalog.run())]
    try:
        yield
    finally:
        edge.database.gate.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_key_is_revoked_although_tokenizers_are_still_being_loaded() -> None:
    edge = Edge()
    began = threading.Event()

    def load() -> None:
        began.set()
        edge.database.gate.wait()

    edge.database.loading = load
    async with running(edge):
        await asyncio.to_thread(began.wait)
        assert await edge.admits()
        edge.database.revoke()
        await edge.until_looked_again()
        assert not await edge.admits()


async def test_database_away_is_looked_for_again() -> None:
    edge = Edge()
    edge.database.is_away = True
    async with running(edge):
        await asyncio.sleep(0.01)
        edge.database.is_away = False
        await edge.until_looked_again()
        assert await edge.admits()
        edge.database.revoke()
        await edge.until_looked_again()
        assert not await edge.admits()


def test_poll_may_not_be_so_slow_that_a_revoked_key_works_for_five_seconds() -> None:
    assert GatewaySettings(catalog_poll_s=4.0).catalog_poll_s == 4.0
    with pytest.raises(ValidationError):
        GatewaySettings(catalog_poll_s=4.1)
