"""Pools over the admin API: what an external one may be, and money as it is written."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from tests.gateway.api.described import assert_described
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer
from workers.autoscaling.demand import PoolOrder
from workers.controller.orders import PoolOrders
from workers.mix import Mix

KEY = "SLUICE_PROVIDER_KEY_A"
POOL: dict[str, Any] = {
    "model": "tale",
    "capacity_class": "external",
    "base_url": "https://api.example.com/v1",
    "upstream_model": "their-tale",
}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def send(one: Edge, method: str, path: str, sent: dict[str, Any]) -> tuple[int, Any]:
    transport = httpx.ASGITransport(app=one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        named = {"authorization": "Bearer admin"}
        answer = await http.request(method, f"/admin/v1{path}", json=sent, headers=named)
        if answer.is_success:
            target = f"/admin/v1{path}"
            assert_described(one.app, method, target, answer.status_code, answer.json())
        return answer.status_code, answer.json()


async def test_pool_that_does_not_fit_its_mix_is_refused_at_its_field(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    mix = Mix(name="tales", model="tale", pools=("far", "farther"))
    settings = one.parts.settings.model_copy(update={"mixes": (mix,)})
    monkeypatch.setattr(one.app.state, "parts", replace(one.parts, settings=settings))
    assert (await send(one, "PUT", "/pools/far", POOL))[0] == 200
    assert (await send(one, "PUT", "/pools/farther", POOL))[0] == 200
    for wrong, field, words in (
        ({"variant": "int8"}, "variant", "variant: mix tales: farther has the variant int8, and"),
        (
            {"capacity_class": "spot", "base_url": None, "upstream_model": None},
            "capacity_class",
            "capacity_class: mix tales: farther stands behind the external pool far",
        ),
    ):
        status, body = await send(one, "PATCH", "/pools/farther", wrong)
        assert status == 400 and body["error"]["param"] == field
        assert body["error"]["message"].startswith(words), body


WRONG: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"upstream_model": None}, "upstream_model", 'for example upstream_model = "gpt-4o-mini"'),
    ({"api_key_env": "SLUICE_SQL_URL"}, "api_key_env", "SLUICE_SQL_URL may not be sent"),
    ({"base_url": "http://0xA9FEA9FE/v1"}, "base_url", "169.254.169.254 is an address"),
    ({"base_url": "https://a:b@x/v1"}, "base_url", "has a user or password in it"),
    ({"base_url": "http://x/v1", "api_key_env": KEY}, "base_url", "send the key unencrypted"),
    ({"cost_usd_per_s": "0.0000000001"}, "cost_usd_per_s", "finer than a nano-dollar"),
    ({"cost_usd_per_s": 1}, "cost_usd_per_s", "write the amount in USD as text"),
    ({"cost_cached_input_usd_per_mtok": "2"}, "cost_cached_input_usd_per_mtok", "more than a"),
    ({"cache_s": 0}, "cache_s", "greater than 0"),
    ({"idle_timeout_s": 0}, "idle_timeout_s", "greater than 0"),
    ({"first_token_timeout_s": "5"}, "first_token_timeout_s", "number"),
)


async def test_what_a_pool_may_not_be_is_refused_at_its_field_by_put_and_patch(one: Edge) -> None:
    assert (await send(one, "PUT", "/pools/far", POOL))[0] == 200
    for changes, field, words in WRONG:
        for method, sent in (("PUT", POOL | changes), ("PATCH", changes)):
            status, answer = await send(one, method, "/pools/far", sent)
            assert (status, answer["error"]["param"]) == (400, field), (method, answer)
            assert words in answer["error"]["message"], answer


async def test_own_pool_that_no_node_can_hold_is_refused_at_its_field(one: Edge) -> None:
    own = {"model": "tale", "capacity_class": "spot", "num_cpus": 1.0}
    for changes, field in (
        ({"market": "lease"}, "market"),
        ({"market": "reserved"}, "market"),
        ({"nodes": "spot-z"}, "nodes"),
    ):
        status, answer = await send(one, "PUT", "/pools/near", own | changes)
        assert (status, answer["error"]["param"]) == (400, field), answer
    status, answer = await send(one, "PUT", "/pools/near", own | {"market": "spot"})
    assert (status, answer["market"], answer["nodes"]) == (200, "spot", None)


async def test_money_is_written_in_usd_and_its_names_of_before_are_read_with_a_notice(
    one: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    status, row = await send(one, "PUT", "/pools/far", POOL | {"cost_usd_per_s": "0.00002"})
    assert (status, row["cost_usd_per_s"], row["cost_nanousd_per_s"]) == (200, "0.00002", 20_000)
    assert "is a name of before" not in caplog.text
    _, row = await send(one, "PATCH", "/pools/far", {"cost_input_nanousd_per_mtok": 5})
    assert (row["cost_input_usd_per_mtok"], row["cost_usd_per_s"]) == ("0.000000005", "0.00002")
    notice = 'cost_input_nanousd_per_mtok is a name of before: write cost_input_usd_per_mtok = "0.0'
    assert notice in caplog.text
    both = {"cost_usd_per_s": "1", "cost_nanousd_per_s": 1}
    status, answer = await send(one, "PATCH", "/pools/far", both)
    assert status == 400 and "leave out cost_nanousd_per_s" in answer["error"]["message"]


async def test_pool_without_its_key_says_so_where_it_is_made(one: Edge) -> None:
    _, row = await send(one, "PUT", "/pools/far", POOL | {"api_key_env": KEY})
    assert row["blocked"] == f"the variable {KEY}, which holds its key, is not set"
    _, row = await send(one, "PATCH", "/pools/far", {"api_key_env": None})
    assert row["blocked"] is None


async def test_dated_costs_are_written_in_usd_kept_by_patch_and_read_as_they_are_answered(
    one: Edge,
) -> None:
    prices = [{"from": "2027-01-01", "cost_input_usd_per_mtok": "0.1"}]
    status, row = await send(one, "PUT", "/pools/far", POOL | {"prices": prices})
    assert status == 200, row
    [price] = row["prices"]
    assert price["from"] == "2027-01-01T00:00:00+00:00"
    assert (price["cost_input_usd_per_mtok"], price["cost_usd_per_s"]) == ("0.10", None)
    status, after = await send(one, "PATCH", "/pools/far", {"region": "eu"})
    assert (status, after["prices"]) == (200, row["prices"])
    assert (await send(one, "PATCH", "/pools/far", {"prices": row["prices"]})) == (200, after)
    status, answer = await send(one, "PATCH", "/pools/far", {"prices": prices * 2})
    assert (status, answer["error"]["param"]) == (400, "prices")


NEAR: dict[str, Any] = {"model": "tale", "capacity_class": "reserved", "max_replicas": 3}


async def order_of(one: Edge, pool: str) -> PoolOrder | None:
    return (await PoolOrders(one.redis).read([pool])).get(pool)


async def test_wake_and_sleep_are_orders_for_the_controller(one: Edge) -> None:
    assert (await send(one, "PUT", "/pools/near", NEAR))[0] == 200
    assert await order_of(one, "near") is None
    status, answer = await send(one, "POST", "/pools/near/wake", {"replicas": 2})
    assert (status, answer["replicas"]) == (202, 2)
    woken = await order_of(one, "near")
    assert woken is not None and woken.replicas == 2
    for sent in ({}, {"to": "sleeping"}, {"to": "cold"}):
        status, answer = await send(one, "POST", "/pools/near/sleep", sent)
        rung = sent.get("to", "sleeping")
        assert (status, answer["replicas"], answer["to"]) == (202, 0, rung)
        asleep = await order_of(one, "near")
        assert asleep is not None and asleep.replicas == 0 and asleep.id != woken.id
        assert asleep.to_sleep is (rung == "sleeping")


async def test_what_cannot_be_ordered_is_refused_and_orders_nothing(one: Edge) -> None:
    await send(one, "PUT", "/pools/far", POOL)
    await send(one, "PUT", "/pools/near", NEAR)
    await send(one, "PUT", "/pools/steady", NEAR | {"min_replicas": 1})
    for path, sent, status, param in (
        ("/pools/near/wake", {"replicas": 4}, 400, "replicas"),
        ("/pools/near/wake", {"replicas": 0}, 400, "replicas"),
        ("/pools/near/sleep", {"to": "bed"}, 400, "to"),
        ("/pools/far/wake", {}, 400, "name"),
        ("/pools/far/sleep", {}, 400, "name"),
        ("/pools/steady/sleep", {}, 409, None),
        ("/pools/nobody/wake", {}, 404, None),
    ):
        code, answer = await send(one, "POST", path, sent)
        assert (code, answer["error"]["param"]) == (status, param), path
    for pool in ("near", "far", "steady", "nobody"):
        assert await order_of(one, pool) is None
