"""Variants and hardware over the admin API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.tenants.tables import Audit
from tests.gateway.admin.test_pools import send
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

SHAPE = {"params": 70_000_000_000, "layers": 80, "heads": 64, "kv_heads": 8, "head_dim": 128}
VARIANT: dict[str, Any] = {"quantization": "int8", "shape": SHAPE}
POOL = {"model": "tale", "capacity_class": "spot", "variant": "int8", "hardware": "l40s"}
MEASURED = {
    **{"use_case": "support", "score": 0.9, "method": "judged", "samples": 400},
    "validated_at": "2026-11-02",
}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def test_variant_is_put_read_listed_audited_and_disabled(one: Edge) -> None:
    path = "/variants/tale/int8"
    status, row = await send(one, "PUT", path, VARIANT | {"quality": [MEASURED]})
    assert (status, row["model"], row["name"], row["quantization"]) == (200, "tale", "int8", "int8")
    assert row["quality"][0]["validated_at"] == "2026-11-02T00:00:00+00:00"
    assert await send(one, "GET", path, {}) == (200, row)
    _, page = await send(one, "GET", "/variants?limit=1", {})
    assert (page["data"], page["has_more"]) == ([row], False)
    status, gone = await send(one, "DELETE", path, {})
    assert (status, gone["enabled"]) == (200, False)
    actions = [audit.action for audit in one.parts.tenants.every(Audit)]
    assert [each for each in actions if "variant" in each] == ["variant.put", "variant.disable"]
    assert (await send(one, "GET", "/variants/tale/fp4", {}))[0] == 404
    assert (await send(one, "PUT", "/variants/ghost/int8", VARIANT))[0] == 409


async def test_what_has_no_room_is_refused_whichever_is_put_last(one: Edge) -> None:
    await send(one, "PUT", "/variants/tale/int8", VARIANT)
    status, answer = await send(one, "PUT", "/pools/small", POOL)
    assert (status, answer["error"]["param"]) == (400, "hardware")
    assert "2 GPUs of this kind would hold it" in answer["error"]["message"]
    assert (await send(one, "PUT", "/pools/small", POOL | {"gpus_per_replica": 2}))[0] == 200
    status, answer = await send(
        one, "PUT", "/variants/tale/int8", VARIANT | {"quantization": "bf16"}
    )
    assert status == 409 and "the pool 'small': int8 of tale" in answer["error"]["message"]
    status, answer = await send(one, "DELETE", "/variants/tale/int8", {})
    assert status == 409 and "the pool 'small' still runs" in answer["error"]["message"]
    simulated = POOL | {"engine": "simulated", "gpus_per_replica": 2}
    status, answer = await send(one, "PUT", "/pools/another", simulated)
    assert (status, answer["error"]["param"]) == (400, "engine")
    assert "tale has real pools" in answer["error"]["message"]
    status, answer = await send(one, "PATCH", "/pools/small", {"speed": 2.0})
    assert (status, answer["error"]["param"]) == (400, "speed")
    late = {"quality": [MEASURED | {"validated_at": "2126-11-02"}]}
    status, answer = await send(one, "PUT", "/variants/tale/int8", VARIANT | late)
    assert (status, answer["error"]["param"]) == (400, "quality")
    long = VARIANT | {"context_tokens": 10**9}
    status, answer = await send(one, "PUT", "/variants/tale/long", long)
    assert (status, answer["error"]["param"]) == (400, "context_tokens")


async def test_hardware_is_listed_in_pages_with_a_source_for_each_figure(one: Edge) -> None:
    names, after = [], ""
    while after is not None:
        _, page = await send(one, "GET", f"/hardware?limit=5{after}", {})
        names += [part["name"] for part in page["data"]]
        after = f"&after={page['after']}" if page["has_more"] else None
    assert names == sorted(set(names)) and {"h100", "l40s", "b200"} <= set(names)
    _, part = await send(one, "GET", "/hardware/l40s", {})
    assert part["memory_gb"]["value"] == 48 and part["memory_gb"]["source"]
    assert (await send(one, "GET", "/hardware/abacus", {}))[0] == 404


OURS: dict[str, Any] = {
    **{"title": "Our rack", "kind": "gpu", "reference": "an invoice", "memory_gb": 80.0},
    **{"bandwidth_gb_s": 2000.0, "tflops": {"fp8": 1500.0}, "gpus_server": 4},
    "prices": [{"offer": "bare_metal", "usd_h": 1.5}],
}


async def test_hardware_of_ones_own_is_put_used_listed_audited_and_disabled(one: Edge) -> None:
    status, part = await send(one, "PUT", "/hardware/ours", OURS)
    assert (status, part["is_own"], part["memory_gb"]) == (
        *(200, True),
        {"value": 80.0, "source": "an invoice"},
    )
    assert part["prices"][0]["usd_h_max"] == 1.5
    assert await send(one, "GET", "/hardware/ours", {}) == (200, part)
    _, page = await send(one, "GET", "/hardware?limit=1000", {})
    assert [row["name"] for row in page["data"] if row["is_own"]] == ["ours"]
    await send(one, "PUT", "/variants/tale/int8", VARIANT)
    assert (await send(one, "PUT", "/pools/small", POOL | {"hardware": "ours"}))[0] == 200
    pool = next(pool for pool in one.parts.catalog.catalog.pools if pool.name == "small")
    assert pool.part is not None and pool.part.name == "ours"
    status, answer = await send(one, "PUT", "/hardware/ours", OURS | {"memory_gb": 48.0})
    assert status == 409 and "the pool 'small': int8 of tale" in answer["error"]["message"]
    status, answer = await send(one, "DELETE", "/hardware/ours", {})
    assert status == 409 and "still runs on 'ours'" in answer["error"]["message"]
    assert (await send(one, "DELETE", "/pools/small", {}))[0] == 200
    assert (await send(one, "DELETE", "/hardware/ours", {}))[0] == 200
    assert (await send(one, "GET", "/hardware/ours", {}))[0] == 404
    actions = [audit.action for audit in one.parts.tenants.every(Audit)]
    assert [each for each in actions if "hardware" in each] == ["hardware.put", "hardware.disable"]


@pytest.mark.parametrize(
    ("name", "changes", "param"),
    [
        ("h100", {}, "name"),
        ("ours", {"memory_gb": None}, "memory_gb"),
        ("ours", {"memory_gb": -1.0}, "memory_gb"),
        ("ours", {"tflops": {"fp4": 1.0}}, "tflops"),
        ("ours", {"kind": "abacus"}, "kind"),
        ("ours", {"prices": [{"offer": "dedicated", "usd_h": 2.0, "usd_h_max": 1.0}]}, "prices"),
        ("ours", {"prices": [{"offer": "dedicated", "usd_h": 2.0}] * 2}, "prices"),
    ],
)
async def test_hardware_that_contradicts_itself_or_what_ships_is_refused(
    one: Edge, name: str, changes: dict[str, Any], param: str
) -> None:
    status, answer = await send(one, "PUT", f"/hardware/{name}", OURS | changes)
    assert status == 400 and answer["error"]["param"].startswith(param), answer
    assert (await send(one, "GET", "/hardware/ours", {}))[0] == 404
