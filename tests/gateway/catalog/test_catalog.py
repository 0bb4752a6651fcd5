"""Models, pools and prices in memory: followed, published, and kept when a source fails."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from billing.prices.book import (
    Component,
    PriceBook,
    PriceRate,
    PriceVersion,
    make_book,
    publish,
)
from gateway.catalog.catalog import (
    CATALOG_KEY,
    PRICES_KEY,
    REVISION_KEY,
    CatalogKeeper,
    unreadable_because,
)
from gateway.catalog.tokenizers import ByteBound, Checkpoints, CheckpointTokens
from gateway.tenants.revision import RevisionWatch
from gateway.tenants.store import TenantStore
from routing.economics.targets import line_of, target_of
from routing.types import Task
from tests.gateway.catalog.served import Served
from workers import catalog as workers_catalog

MODEL = {"context_tokens": 512, "max_output_tokens": 256, "size_rank": 1, "quality": 0.5}
CHECKPOINT = Path(__file__).parents[3] / "models" / "sluice-small"
POOL = {"model": "tale", "variant": "fp16", "capacity_class": "reserved"}


class Edge:
    """A keeper, and how often it called out that something changed."""

    def __init__(self, tenants: TenantStore, redis: Redis) -> None:
        self.changes = 0
        self.now_s = 1.79e9
        self.serving = Served(tenants, lambda: 1.79e9)
        watch = RevisionWatch(tenants, on_change=self._changed, poll_s=0.01)
        checkpoints = Checkpoints(CheckpointTokens)
        self.in_sql = PriceBook(())
        self.keeper = CatalogKeeper(
            *(tenants, redis, checkpoints),
            watch=watch,
            load_prices=lambda: self.in_sql,
            poll_s=0.01,
            clock=lambda: self.now_s,
        )

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def one(tenants: TenantStore, redis: Redis) -> Edge:
    return Edge(tenants, redis)


async def test_new_revision_is_taken_up_once_and_published(one: Edge, redis: Redis) -> None:
    await one.serving.put_model("tale", MODEL)
    await one.serving.put_pool("tale-reserved", POOL)
    for _ in range(3):
        await one.keeper.refresh()
    assert (list(one.keeper.catalog.models), one.changes) == (["tale"], 1)
    assert isinstance(one.keeper.catalog.counters["tale"], ByteBound)
    published = json.loads(await redis.get(CATALOG_KEY) or b"")
    assert published["revision"] == int(await redis.get(REVISION_KEY) or 0) == 2
    assert [pool["name"] for pool in published["pools"]] == ["tale-reserved"]


async def test_wiped_redis_is_published_to_again(one: Edge, redis: Redis) -> None:
    await one.serving.put_model("tale", MODEL)
    await one.keeper.refresh()
    await redis.flushall()
    await one.keeper.refresh()
    assert await redis.exists(CATALOG_KEY, REVISION_KEY) == 2


async def test_disabled_pool_leaves_the_catalog(one: Edge) -> None:
    await one.serving.put_model("tale", MODEL)
    await one.serving.put_pool("tale-reserved", POOL)
    await one.keeper.refresh()
    await one.serving.disable_pool("tale-reserved")
    await one.keeper.refresh()
    assert one.keeper.catalog.pools == ()


def priced(revision: int) -> PriceBook:
    rates = (
        PriceRate("tale", "default", Component.INPUT, 1),
        PriceRate("tale", "default", Component.OUTPUT, 2),
    )
    return make_book([PriceVersion("pv_1", 0, None, rates)], revision=revision)


async def test_new_model_comes_with_the_prices_that_sql_has(one: Edge, redis: Redis) -> None:
    """The ledger has not published them yet: what it publishes meanwhile is older."""
    one.in_sql = priced(revision=4)
    await redis.set(PRICES_KEY, publish(priced(revision=3), 10))
    await one.serving.put_model("tale", MODEL)
    await one.keeper.refresh()
    assert list(one.keeper.catalog.models) == ["tale"]
    assert one.keeper.prices.revision == 4
    await redis.set(PRICES_KEY, publish(priced(revision=5), 10))
    await one.keeper.refresh()
    assert one.keeper.prices.revision == 5


async def test_prices_follow_the_ledger_and_outlive_a_lost_redis(one: Edge, redis: Redis) -> None:
    book = priced(revision=3)
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
    await one.serving.put_model("tale", MODEL)
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
    folder.symlink_to(CHECKPOINT)
    await one.serving.put_model("tale", MODEL)
    await one.serving.put_model("lost", MODEL | {"path": str(folder)})
    await one.serving.put_pool("lost-pool", POOL | {"model": "lost"})
    folder.unlink()
    await one.keeper.refresh()
    assert list(one.keeper.catalog.models) == ["tale"]
    assert (one.keeper.catalog.pools, list(one.keeper.catalog.unreadable)) == ((), ["lost"])
    folder.symlink_to(CHECKPOINT)
    await one.keeper.refresh()
    assert set(one.keeper.catalog.models) == {"tale", "lost"}
    assert [pool.name for pool in one.keeper.catalog.pools] == ["lost-pool"]
    assert one.changes == 1, "keys are forgotten once a revision"


def test_folder_that_is_no_checkpoint_is_refused_with_its_name(tmp_path: Path) -> None:
    reason = unreadable_because(str(tmp_path), Task.GENERATE)
    assert reason is not None and str(tmp_path) in reason


async def test_what_a_pool_says_of_itself_reaches_routing(one: Edge) -> None:
    said = {
        **{"hardware": "h100", "gpus_per_replica": 2, "offer": "dedicated", "zone": "a"},
        **{"provider": "far", "retention_days": 0, "trains": False},
    }
    await one.serving.put_model("tale", MODEL)
    await one.serving.put_pool("tale-reserved", POOL | said)
    await one.serving.put_pool("tale-spot", POOL | {"capacity_class": "spot"})
    await one.keeper.refresh()
    told, silent = one.keeper.catalog.pools
    assert {name: getattr(told, name) for name in said} == said
    assert {getattr(silent, name) for name in said} == {None, "serverless"}


async def test_roofline_of_a_simulated_pool_is_published_at_its_speed(
    one: Edge, redis: Redis
) -> None:
    await one.serving.put_model("tale", MODEL)
    shape = {"params": 8 * 10**9, "layers": 32, "heads": 32, "kv_heads": 8, "head_dim": 128}
    await one.serving.put_variant("tale", "v", {"quantization": "fp16", "shape": shape})
    simulated = {"variant": "v", "engine": "simulated", "hardware": "h100", "speed": 10.0}
    await one.serving.put_pool("tale-reserved", POOL | simulated)
    await one.keeper.refresh()
    published = await workers_catalog.read_catalog(redis)
    [pool] = one.keeper.catalog.pools
    assert published is not None and pool.is_simulated
    line = published.rooflines["tale-reserved"]
    assert line == line_of(pool)
    real = line_of(replace(pool, speed=None))
    assert real is not None
    assert math.isclose(line.step_s(3, 500) * 10, real.step_s(3, 500))
    assert math.isclose(line.prefill_s(700) * 10, real.prefill_s(700))
    assert target_of(pool) != target_of(replace(pool, engine=None))


async def test_declared_variant_reaches_routing_and_an_undeclared_label_says_no_more(
    one: Edge,
) -> None:
    await one.serving.put_model("tale", MODEL)
    measured = {
        **{"use_case": "support", "score": 0.9, "method": "judged", "samples": 4},
        "validated_at": "2026-09-02",
    }
    shape = {"params": 8, "layers": 1, "heads": 1, "kv_heads": 1, "head_dim": 1}
    said = {"quantization": "int8", "shape": shape, "gpus_per_replica": 2, "context_tokens": 256}
    await one.serving.put_variant("tale", "small", said | {"quality": [measured]})
    await one.serving.put_pool("a", POOL | {"variant": "small"})
    await one.serving.put_pool("b", POOL)
    await one.keeper.refresh()
    declared, label = one.keeper.catalog.pools
    model = one.keeper.catalog.models["tale"]
    assert (declared.quantization, declared.gpus, declared.context_tokens(model)) == (
        "int8",
        2,
        256,
    )
    support = declared.validation("support")
    assert support is not None and (support.score, support.samples) == (0.9, 4)
    assert declared.validation("code") is None
    assert (label.quantization, label.gpus, label.context_tokens(model)) == ("fp16", 1, 512)
    assert label.declared is None and label.validation("support") is None


async def test_controller_reads_the_weights_of_a_variant_and_a_catalog_without_any(
    one: Edge, redis: Redis
) -> None:
    await one.serving.put_model("tale", MODEL | {"path": str(CHECKPOINT)})
    said = {"quantization": "fp16", "path": str(CHECKPOINT), "context_tokens": 128}
    await one.serving.put_variant("tale", "short", said)
    await one.serving.put_pool("a", POOL | {"variant": "short"})
    await one.serving.put_pool("b", POOL)
    await one.keeper.refresh()
    published = await workers_catalog.read_catalog(redis)
    assert published is not None
    contexts = {pool.name: published.model_of(pool).context_tokens for pool in published.pools}
    assert contexts == {"a": 128, "b": 512}
    before = json.loads(await redis.get(CATALOG_KEY) or b"")
    del before["variants"]
    await redis.set(CATALOG_KEY, json.dumps(before))
    older = await workers_catalog.read_catalog(redis)
    assert older is not None and older.model_of(older.pools[0]).context_tokens == 512


async def test_cost_of_a_pool_changes_at_its_instant_without_a_new_revision(
    one: Edge, redis: Redis
) -> None:
    await one.serving.put_model("tale", MODEL)
    prices = [
        {"from": 1_790_000_020, "cost_usd_per_s": "0.000003"},
        {"from": 1_790_000_010, "cost_usd_per_s": "0.000002"},
    ]
    said = POOL | {"cost_usd_per_s": "0.000001", "prices": prices}
    await one.serving.put_pool("tale-reserved", said)
    seen = {}
    for second in (0, 9, 10, 19, 20, 30):
        one.now_s = 1_790_000_000 + second
        await one.keeper.refresh()
        [pool] = one.keeper.catalog.pools
        seen[second] = pool.cost_nanousd_per_s
    assert seen == {0: 1000, 9: 1000, 10: 2000, 19: 2000, 20: 3000, 30: 3000}
    published = await workers_catalog.read_catalog(redis)
    assert published is not None
    [pool_of_workers] = published.pools
    costs = {at: pool_of_workers.cost_at((1_790_000_000 + at) * 1_000_000) for at in seen}
    assert costs == seen
