"""The status of a call whose money is gone: 429 as OpenAI's, or 402 where its organization asks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID
from tests.gateway.api.asgi import ask
from tests.gateway.edge import Edge, body, edge, story
from tests.redis_server import RedisServer

OURS = f"/organizations/{ORGANIZATION_ID}"
TOO_LITTLE = "0.000000001"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def admin(one: Edge, method: str, path: str, sent: Any) -> tuple[int, Any]:
    return await ask(one.app, method, f"/admin/v1{path}", json.dumps(sent).encode(), "admin")


async def choose(one: Edge, **terms: Any) -> Any:
    status, told = await admin(one, "PATCH", OURS, terms)
    assert status == 200, told
    return told


async def no_credit(one: Edge) -> None:
    await choose(one, settlement_mode="prepaid")


async def no_budget(one: Edge) -> None:
    await admin(one, "PUT", f"/budgets/key:{KEY_ID}", {"limit_usd": TOO_LITTLE})


async def no_purse(one: Edge) -> None:
    scope = f"org:{ORGANIZATION_ID}"
    made = {"scope": scope, "name": "cap", "limit_usd": TOO_LITTLE, "window": {"kind": "total"}}
    assert (await admin(one, "POST", "/budgets", made))[0] == 201


GONE = [no_credit, no_budget, no_purse]


@pytest.mark.parametrize("chosen", [None, 429, 402])
@pytest.mark.parametrize("is_gone", GONE, ids=[gone.__name__ for gone in GONE])
async def test_money_that_is_gone_is_told_with_the_status_that_was_chosen(
    one: Edge, is_gone: Callable[[Edge], Awaitable[None]], chosen: int | None
) -> None:
    if chosen is not None:
        told = await choose(one, insufficient_quota_status=chosen)
        assert told["insufficient_quota_status"] == chosen
    await is_gone(one)
    for whole in ({}, {"stream": False, "stream_options": None}):
        refused = await one.post(body(**whole))
        assert (refused.status, refused.error_code) == (chosen or 429, "insufficient_quota")
        assert refused.json["error"]["type"] == "insufficient_quota"
        assert refused.headers["x-should-retry"] == "false"
        assert "retry-after" not in refused.headers
    assert not one.upstream.requests


async def test_rate_limit_is_429_whatever_was_chosen(one: Edge) -> None:
    await choose(one, insufficient_quota_status=402)
    await admin(one, "PUT", f"/limits/key:{KEY_ID}", {"requests_per_minute": 1, "request_burst": 1})
    one.upstream.behaviour = lambda _: story()
    assert (await one.post(body())).status == 200
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (429, "rate_limit_exceeded")
    await one.settled()


async def test_anthropics_clients_are_told_402_as_theirs(one: Edge) -> None:
    await choose(one, insufficient_quota_status=402)
    await no_credit(one)
    asked = {"model": "tale", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}
    refused = await one.post(asked, path="/v1/messages")
    assert (refused.status, refused.json["error"]["type"]) == (402, "billing_error")
    assert refused.headers["x-should-retry"] == "false"


async def test_status_is_chosen_when_an_organization_is_made_and_kept_by_other_changes(
    one: Edge,
) -> None:
    made = {"name": "n", "slug": "n", "insufficient_quota_status": 402}
    status, told = await admin(one, "POST", "/organizations", made)
    assert (status, told["insufficient_quota_status"]) == (201, 402)
    _, told = await admin(one, "PATCH", f"/organizations/{told['id']}", {"status": "frozen"})
    assert told["insufficient_quota_status"] == 402
    _, listed = await ask(one.app, "GET", "/admin/v1/organizations", b"", "admin")
    found = {row["id"]: row["insufficient_quota_status"] for row in listed["data"]}
    assert found == {ORGANIZATION_ID: 429, told["id"]: 402}


@pytest.mark.parametrize("wrong", [403, "402", None])
async def test_no_other_status_can_be_chosen(one: Edge, wrong: Any) -> None:
    status, told = await admin(one, "PATCH", OURS, {"insufficient_quota_status": wrong})
    assert (status, told["error"]["param"]) == (400, "insufficient_quota_status")


async def test_first_organization_has_the_status_of_the_settings(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    bootstrap = {"insufficient_quota_status": 402, "budget_usd": "0.000000001"}
    async with edge(redis_server, redis, tmp_path, limits=bootstrap) as one:
        refused = await one.post(body())
        assert (refused.status, refused.error_code) == (402, "insufficient_quota")
