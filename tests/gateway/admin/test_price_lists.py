"""What a provider charges us: nothing counts before it is approved, and then as it was."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import FAR, Edge, body, edge, story
from tests.redis_server import RedisServer

LISTS = "/providers/acme/price-lists"
RATE = {"model": "their-tale", "input_usd_per_mtok": "2", "output_usd_per_mtok": "8"}
FLEX = RATE | {"tier": "flex", "input_usd_per_mtok": "1"}
USD = 10**9


class Bought(NamedTuple):
    edge: Edge
    server: fake.FakeUpstream


@pytest.fixture
async def bought(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Bought]:
    async with (
        fake.FakeUpstream(lambda _: story()) as server,
        edge(
            redis_server,
            redis,
            tmp_path,
            outer=server.address,
            outer_pool={"model": FAR, "provider": "acme"},
        ) as running,
    ):
        yield Bought(running, server)


async def admin(one: Edge, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, f"/admin/v1{path}", raw, "admin")
    if status < 300:
        assert_described(one.app, method, f"/admin/v1{path}", status, answer)
    return status, answer


def starting(hour: int, *rates: dict[str, Any]) -> dict[str, Any]:
    return {"from": datetime(2026, 1, 1, hour, tzinfo=UTC).isoformat(), "rates": [*rates]}


async def test_a_list_counts_once_it_is_approved_and_says_what_it_changes(bought: Bought) -> None:
    one = bought.edge
    assert (await admin(one, "POST", LISTS, starting(1, RATE)))[0] == 404, "it is no account yet"
    await admin(one, "PUT", "/providers/acme", {"keys": []})
    pool = {
        "model": FAR,
        "capacity_class": "external",
        "base_url": "http://127.0.0.1:9/v1",
        "upstream_model": "their-tale",
        "provider": "acme",
    }
    status, answer = await admin(one, "PUT", "/pools/more", pool)
    assert (status, answer["error"]["param"]) == (400, "upstream_model"), answer
    assert "no approved price of their-tale" in answer["error"]["message"]
    own = pool | {"cost_input_usd_per_mtok": "3"}
    assert (await admin(one, "PUT", "/pools/own", own))[0] == 200, "a price of its own counts"
    status, draft = await admin(one, "POST", LISTS, starting(1, RATE, FLEX))
    assert (status, draft["version"], draft["status"]) == (201, 1, "draft")
    assert draft["changes"][0]["was_usd"] is None and draft["approved_by"] is None
    assert (await admin(one, "PUT", "/pools/more", pool))[0] == 400, "a draft is no price"
    assert one.parts.catalog.catalog.listed == {}
    status, approved = await admin(one, "POST", f"{LISTS}/1/approve")
    assert (status, approved["status"], approved["approved_by"]) == (200, "approved", "admin")
    assert (await admin(one, "PUT", "/pools/more", pool))[0] == 200
    assert (await admin(one, "POST", f"{LISTS}/1/approve"))[0] == 409
    status, dearer = await admin(
        one, "POST", LISTS, starting(2, RATE | {"input_usd_per_mtok": "3"})
    )
    (change,) = [each for each in dearer["changes"] if each["tier"] == "default"]
    assert (change["was_usd"], change["is_usd"], change["per"]) == ("2.00", "3.00", "mtok")
    by_image = RATE | {"images": {"1024x1024/high": "0.17"}, "second_usd": "0.0001"}
    _, drawn = await admin(one, "POST", LISTS, starting(4, by_image))
    assert drawn["rates"][0]["images"] == {"1024x1024/high": "0.17"}
    units = {each["component"]: each for each in drawn["changes"] if each["per"] == "unit"}
    assert {name: each["is_usd"] for name, each in units.items()} == {
        "image/1024x1024/high": "0.17",
        "second": "0.0001",
    }
    status, refused = await admin(one, "POST", LISTS, starting(5, RATE | {"batch": True}))
    assert status == 400 and "makes no batch calls" in refused["error"]["message"]
    await admin(one, "POST", LISTS, starting(1, RATE))
    assert (await admin(one, "POST", f"{LISTS}/4/approve"))[0] == 409, "two begin at one instant"
    _, page = await admin(one, "GET", f"{LISTS}?limit=2")
    assert [each["version"] for each in page["data"]] == [4, 3] and page["has_more"]
    with pytest.raises(IntegrityError), one.parts.ledger.write() as conn:
        conn.execute(text("UPDATE provider_price_list SET rates = '[]' WHERE version = 1"))


async def test_a_call_costs_what_the_list_says_for_its_tier(bought: Bought) -> None:
    one = bought.edge
    await admin(one, "PUT", "/providers/acme", {"keys": []})
    await admin(one, "POST", LISTS, starting(1, RATE, FLEX))
    await admin(one, "POST", f"{LISTS}/1/approve")
    for tier in ("default", "flex"):
        assert (await one.post(body(model=FAR, service_tier=tier))).status == 200
    calls = sorted((await one.settled()).values(), key=lambda call: call.admitted_us)
    prices = [each.attempts[0].input_nanousd_per_mtok for each in calls]
    assert prices == [2 * USD, 1 * USD]
    sent = [each.body.get("service_tier") for each in bought.server.requests]
    assert sent == [None, "flex"]
