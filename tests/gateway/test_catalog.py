"""Models, pools and prices in memory: followed, published, and kept when a source fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from billing.pricebook import Component, PriceRate, PriceVersion, make_book, publish
from gateway.admin.serving import Serving
from gateway.catalog import (
    CATALOG_KEY,
    PRICES_KEY,
    REVISION_KEY,
    CatalogKeeper,
    unreadable_because,
)
from gateway.revision import RevisionWatch
from gateway.store import TenantStore
from gateway.tokens import ByteBound, Checkpoints, CheckpointTokens
from routing.types import Task

MODEL = {"context_tokens": 512, "max_output_tokens": 256, "size_rank": 1, "quality": 0.5}
POOL = {"model": "tale", "variant": "fp16", "capacity_class": "reserved"}


class Edge:
    """A keeper, and how often it called out that something changed."""

    def __init__(self, tenants: TenantStore, redis: Redis) -> None:
        self.changes = 0
        self.serving = Serving(tenants, lambda: 1.79e9)
        watch = RevisionWatch(tenants, changed=self._changed, poll_s=0.01)
        checkpoints = Checkpoints(CheckpointTokens)
        self.keeper = CatalogKeeper(tenants, redis, checkpoints, watch=watch, poll_s=0.01)

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def one(tenants: TenantStore, redis: Redis) -> Edge:
    return Edge(tenants, redis)


async def test_new_revision_is_taken_up_once_and_published(one: Edge, redis: Redis) -> None:
    one.serving.put_model("tale", MODEL)
    one.serving.put_pool("tale-reserved", POOL)
    for _ in range(3):
        await one.keeper.refresh()
    assert (list(one.keeper.catalog.models), one.changes) == (["tale"], 1)
    assert isinstance(one.keeper.catalog.counters["tale"], ByteBound)
    published = json.loads(await redis.get(CATALOG_KEY) or b"")
    assert published["revision"] == int(await redis.get(REVISION_KEY) or 0) == 2
    assert [pool["name"] for pool in published["pools"]] == ["tale-reserved"]


async def test_wiped_redis_is_published_to_again(one: Edge, redis: Redis) -> None:
    one.serving.put_model("tale", MODEL)
    await one.keeper.refresh()
    await redis.flushall()
    await one.keeper.refresh()
    assert await redis.exists(CATALOG_KEY, REVISION_KEY) == 2


async def test_disabled_pool_leaves_the_catalog(one: Edge) -> None:
    one.serving.put_model("tale", MODEL)
    one.serving.put_pool("tale-reserved", POOL)
    await one.keeper.refresh()
    one.serving.disable_pool("tale-reserved")
    await one.keeper.refresh()
    assert one.keeper.catalog.pools == ()


async def test_prices_follow_the_ledger_and_outlive_a_lost_redis(one: Edge, redis: Redis) -> None:
    rates = (
        PriceRate("tale", "default", Component.INPUT, 1),
        PriceRate("tale", "default", Component.OUTPUT, 2),
    )
    book = make_book([PriceVersion("pv_1", 0, None, rates)], revision=3)
    await redis.set(PRICES_KEY, publish(book, 10))
    await one.keeper.refresh()
    assert one.keeper.prices.revision == 3
    await redis.flushall()
    await one.keeper.refresh()
    assert one.keeper.prices.revision == 3


async def test_prices_that_cannot_be_read_leave_the_old_ones(one: Edge, redis: Redis) -> None:
    for raw in (b"", b"{", b"[]", b"\xff"):
        await redis.set(PRICES_KEY, raw)
        await one.keeper.refresh()
    assert one.keeper.prices.versions == ()


async def test_locked_database_leaves_the_catalog_as_it_was(
    one: Edge, tenants: TenantStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one.serving.put_model("tale", MODEL)
    await one.keeper.refresh()

    def locked() -> int:
        raise OperationalError("SELECT", {}, Exception("database is locked"))

    monkeypatch.setattr(tenants, "revision", locked)
    await one.keeper.refresh()
    assert list(one.keeper.catalog.models) == ["tale"]


async def test_model_whose_folder_has_gone_is_left_out_until_it_is_back(
    one: Edge, tmp_path: Path
) -> None:
    folder = tmp_path / "lost"
    one.serving.put_model("tale", MODEL)
    one.serving.put_model("lost", MODEL | {"path": str(folder)})
    one.serving.put_pool("lost-pool", POOL | {"model": "lost"})
    await one.keeper.refresh()
    assert list(one.keeper.catalog.models) == ["tale"]
    assert (one.keeper.catalog.pools, list(one.keeper.catalog.unreadable)) == ((), ["lost"])
    folder.symlink_to(Path(__file__).parents[2] / "models" / "sluice-small")
    await one.keeper.refresh()
    assert set(one.keeper.catalog.models) == {"tale", "lost"}
    assert [pool.name for pool in one.keeper.catalog.pools] == ["lost-pool"]
    assert one.changes == 1, "keys are forgotten once a revision"


def test_folder_that_is_no_checkpoint_is_refused_with_its_name(tmp_path: Path) -> None:
    reason = unreadable_because(str(tmp_path), Task.GENERATE)
    assert reason is not None and str(tmp_path) in reason
