"""What a call would cost and where it would go, asked without taking or running anything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.admin.entitlements.service import EntitlementService
from gateway.admin.use_cases import admin_store
from gateway.catalog.bootstrap import KEY_ID
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, OUTPUT_PRICE, Edge, body, edge
from tests.redis_server import RedisServer

CHAT = "/v1/chat/completions"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def allow(one: Edge, **leave: Any) -> None:
    await EntitlementService(admin_store(one.parts)).set(f"key:{KEY_ID}", leave)


async def quoted(one: Edge, url: str = CHAT, **changes: Any) -> tuple[int, Any]:
    sent = json.dumps({"url": url, "body": body(**changes)}).encode()
    status, told = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    if status == 200:
        assert_described(one.app, "POST", "/v1/quote", status, told)
    return status, told


async def test_quote_bounds_the_charge_and_names_the_pool_that_serves(one: Edge) -> None:
    status, told = await quoted(one, max_tokens=8)
    assert (status, told["error"], told["output_tokens_max"]) == (200, None, 8)
    (model,) = told["models"]
    response = await one.post(body(max_tokens=8, stream=False, stream_options=None))
    charged = float(response.headers["x-sluice-cost-usd"])
    assert 0 < charged <= float(model["max_usd"])
    assert float(model["max_usd"]) >= 8 * OUTPUT_PRICE / 1e6 / 1e9
    eligible = [found["pool"] for found in told["candidates"] if found["eligible"]]
    assert response.headers["x-sluice-pool"] == eligible[0]
    assert all(found["reason"] and found["price_usd"] for found in told["candidates"])
    await one.settled()


async def test_quote_takes_and_runs_nothing(one: Edge) -> None:
    for _ in range(3):
        assert (await quoted(one))[0] == 200
    assert not one.upstream.requests
    assert await one.settled() == {}
    assert await one.money_keys() == []


async def test_call_that_would_be_refused_is_quoted_with_the_refusal(one: Edge) -> None:
    await allow(one, capacity_classes=["external"])
    status, told = await quoted(one)
    assert (status, told["candidates"]) == (200, [])
    assert (told["error"]["status"], told["error"]["code"]) == (403, "capacity_not_allowed")
    assert told["models"]


WRONG: dict[str, tuple[bytes, int, str | None]] = {
    "no JSON": (b"{", 400, None),
    "no object": (b"[]", 400, None),
    "no url": (json.dumps({"body": body()}).encode(), 400, "url"),
    "no body": (json.dumps({"url": CHAT}).encode(), 400, "body"),
    "a url that is no string": (json.dumps({"url": 5, "body": body()}).encode(), 400, "url"),
    "an unknown field": (json.dumps({"url": CHAT, "body": body(), "x": 1}).encode(), 400, "x"),
    "an unknown route": (json.dumps({"url": "/v1/x", "body": body()}).encode(), 400, "url"),
    "a wrong body": (
        json.dumps({"url": CHAT, "body": body(temperature=9)}).encode(),
        400,
        "temperature",
    ),
    "an unknown model": (
        json.dumps({"url": CHAT, "body": body(model="nothing")}).encode(),
        404,
        "model",
    ),
    "a model without a price": (
        json.dumps({"url": CHAT, "body": body(model="free")}).encode(),
        400,
        "model",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_question_is_refused_as_the_call_would_be(one: Edge, name: str) -> None:
    sent, expected, param = WRONG[name]
    status, told = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert (status, told["error"]["param"]) == (expected, param)


async def test_key_learns_nothing_of_a_model_it_may_not_use(one: Edge) -> None:
    await allow(one, models=["free"])
    assert (await quoted(one))[1]["error"]["code"] == "model_not_found"
    sent = json.dumps({"model": "tale", "prompt": "x"}).encode()
    _, told = await ask(one.app, "POST", "/v1/tokenize", sent, API_KEY)
    assert told["error"]["code"] == "model_not_found"
