"""Limits of single models under `auto`: no model serves a call that its limits have not counted."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.prices.book import Component, PriceRate, PriceVersion, make_book, publish
from gateway.catalog.bootstrap import KEY_ID
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, POOLS, Edge, body, edge
from tests.redis_server import RedisServer

AUTO = body(model="auto")
SECOND = "free-reserved"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """Two models that `auto` may choose: `tale`, whose first pool is cheaper, and `free`."""
    async with edge(redis_server, redis, tmp_path) as running:
        pool = {"model": "free", "max_ongoing": 64, "cost_usd_per_s": "0.009"}
        await admin(running, "PUT", f"/pools/{SECOND}", pool | {"capacity_class": "reserved"})
        await redis.set("sluice:prices", prices())
        await running.parts.catalog.refresh()
        await publish_fleet(running, running.upstream.address)
        yield running


async def admin(one: Edge, method: str, path: str, sent: dict[str, Any]) -> None:
    raw = json.dumps(sent).encode()
    status, told = await ask(one.app, method, f"/admin/v1{path}", raw, "admin")
    assert status == 200, told


def prices() -> bytes:
    rates = tuple(
        PriceRate(model=model, tier="default", component=component, nanousd_per_mtok=10**9)
        for model in ("tale", "free")
        for component in (Component.INPUT, Component.OUTPUT)
    )
    version = PriceVersion("pv_2", 0, None, rates)
    return publish(make_book([version]), round(time.time() * 1e6))


async def publish_fleet(one: Edge, first: str) -> None:
    """A warm replica of each; that of `tale` at the address `first`."""
    second = one.upstream.address
    fleet = {
        "v": 1,
        "seq": 9,
        "at_ms": round(time.time() * 1000),
        "pools": [
            {"name": name, "target": 1, "replicas": [one.replica(f"r-{name}", address=address)]}
            for name, address in ((POOLS[0], first), (SECOND, second))
        ],
    }
    await one.redis.set("sluice:fleet", json.dumps(fleet))
    await one.parts.fleet.refresh()


async def limit(one: Edge, model: str, **limits: int) -> None:
    await admin(one, "PUT", f"/limits/key:{KEY_ID}/model:{model}", limits)


async def served(one: Edge, count: int) -> list[str]:
    """The models that served so many calls of `auto`, or what else was answered."""
    found = []
    for _ in range(count):
        answered = await one.post(AUTO)
        found.append(
            answered.chunks[0]["model"] if answered.status == 200 else str(answered.error_code)
        )
    return found


async def test_model_whose_limit_is_used_up_is_passed_over_for_another(one: Edge) -> None:
    await limit(one, "tale", requests_per_minute=2)
    assert await served(one, 4) == ["tale", "tale", "free", "free"]
    await one.settled()


async def test_call_too_large_for_one_model_goes_to_another(one: Edge) -> None:
    await limit(one, "tale", output_tokens_per_minute=10)
    assert await served(one, 2) == ["free", "free"]


async def test_where_every_model_is_used_up_the_call_is_refused(one: Edge) -> None:
    await limit(one, "tale", requests_per_minute=1)
    await limit(one, "free", requests_per_minute=1)
    assert await served(one, 3) == ["tale", "free", "rate_limit_exceeded"]
    await one.settled()


async def test_limits_of_the_key_itself_are_no_reason_for_another_model(one: Edge) -> None:
    await admin(one, "PUT", f"/limits/key:{KEY_ID}", {"requests_per_minute": 1})
    assert await served(one, 2) == ["tale", "rate_limit_exceeded"]


async def test_limited_model_is_a_second_choice_until_its_limit_is_used_up(one: Edge) -> None:
    """The worker of the first choice is gone."""
    await limit(one, "free", requests_per_minute=1)
    await publish_fleet(one, "http://127.0.0.1:9")
    assert await served(one, 2) == ["free", "server_is_overloaded"]
    assert len(one.upstream.requests) == 1
    await admin(one, "PUT", f"/limits/key:{KEY_ID}/model:free", {})
    assert await served(one, 1) == ["free"]
    await one.settled()


async def test_named_model_is_never_exchanged(one: Edge) -> None:
    await limit(one, "tale", requests_per_minute=1)
    one.upstream.behaviour = lambda _: fake.stream(fake.own_frame("a", 1, finish="stop"), fake.DONE)
    named = [await one.post(body()) for _ in range(2)]
    assert [answered.status for answered in named] == [200, 429]


async def test_a_model_with_limits_of_its_own_stays_a_candidate(one: Edge) -> None:
    await limit(one, "free", requests_per_minute=9)
    await one.post(AUTO)
    (call,) = (await one.settled()).values()
    candidates = (await one.explained(call.rid)).candidates
    eligible = {each.model for each in candidates if each.eligible}
    assert eligible == {"tale", "free"}
    _, told = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert told["narrow_limits"]
