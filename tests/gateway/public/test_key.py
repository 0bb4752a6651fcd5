"""A key asks what it may do, and what is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.admin.entitlements.service import EntitlementService
from gateway.admin.use_cases import admin_store
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, Edge, body, edge
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path, limits={"budget_usd": "5"}) as made:
        yield made


async def own_key(one: Edge) -> dict[str, object]:
    status, told = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert status == 200
    assert_described(one.app, "GET", "/v1/key", status, told)
    assert isinstance(told, dict)
    return told


async def test_key_is_told_its_limits_and_what_is_left_of_its_budget(one: Edge) -> None:
    before = await own_key(one)
    assert (before["id"], before["models"], before["tiers"]) == (KEY_ID, None, None)
    await one.publish_fleet(one.replica())
    answered = await one.post(body(max_tokens=8))
    assert answered.status == 200
    spent = (await one.settled()).popitem()[1].amount_nanousd
    key, project, organization = (await own_key(one))["scopes"]  # type: ignore[misc]
    assert key["budget"]["limit_usd"] == "5.00"
    remaining = round(float(key["budget"]["remaining_usd"]) * 1e9)
    assert remaining == 5_000_000_000 - spent < 5_000_000_000
    assert organization["budget"]["limit_usd"] is None is organization["budget"]["remaining_usd"]
    assert organization["budget"]["spent_usd"] == key["budget"]["spent_usd"]
    assert project["scope"].startswith("project:")


async def test_key_is_told_what_the_narrowest_scope_leaves_it(one: Edge) -> None:
    entitlements = EntitlementService(admin_store(one.parts))
    await entitlements.set(f"key:{KEY_ID}", {"models": ["tale", "free"]})
    await entitlements.set(f"org:{ORGANIZATION_ID}", {"models": ["tale"], "tiers": ["flex"]})
    told = await own_key(one)
    assert (told["models"], told["tiers"], told["capacity_classes"]) == (["tale"], ["flex"], None)


@pytest.mark.parametrize(
    "path",
    ["/v1/fine_tuning/jobs", "/v1/images/variations", "/v1/videos"],
)
async def test_what_is_not_offered_says_so_in_words(one: Edge, path: str) -> None:
    status, told = await ask(one.app, "POST", path, b"{}", API_KEY)
    assert (status, told["error"]["code"]) == (404, "not_offered")
    assert set(told["error"]) == {"message", "type", "param", "code"}
    assert ("train" in told["error"]["message"]) == (path == "/v1/fine_tuning/jobs")


async def test_other_paths_stay_unknown(one: Edge) -> None:
    for path in ("/v1/imagesque", "/v1/nothing"):
        status, told = await ask(one.app, "GET", path, b"", API_KEY)
        assert (status, told["error"]["code"]) == (404, None)
