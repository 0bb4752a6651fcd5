"""What an administrator leaves out stays as it is, wherever the route says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.catalog.bootstrap import KEY_ID, PROJECT_ID
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import POOLS, Edge, edge
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def admin(one: Edge, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    target = f"/admin/v1{path}"
    status, told = await ask(one.app, method, target, raw, "admin")
    if status < 300:
        assert_described(one.app, method, target, status, told)
    return status, told


async def pool_of(one: Edge, name: str) -> dict[str, Any]:
    _, listed = await admin(one, "GET", "/pools")
    found: dict[str, Any] = {row["name"]: row for row in listed["data"]}[name]
    return found


async def test_window_of_a_budget_stays_when_only_the_amount_is_set(one: Edge) -> None:
    path = f"/budgets/key:{KEY_ID}"
    _, told = await admin(one, "PUT", path, {"limit_usd": "5", "window": "total"})
    assert told["window"] == "total"
    for amount in ("6", None):
        _, told = await admin(one, "PUT", path, {"limit_usd": amount})
        assert told["window"] == "total"
    _, told = await admin(one, "PUT", "/budgets/org:org_default", {"limit_usd": "1"})
    assert told["window"] == "month", "that of a new budget"


async def test_changing_one_field_of_a_pool_keeps_the_others(one: Edge) -> None:
    before = await pool_of(one, POOLS[0])
    status, told = await admin(one, "PATCH", f"/pools/{POOLS[0]}", {"max_replicas": 7})
    assert status == 200
    assert told == before | {"max_replicas": 7, "source": "admin"}
    assert await pool_of(one, POOLS[0]) == told


@pytest.mark.parametrize(
    "changes", [{"colour": "red"}, {"engine": "warp"}, {"max_replicas": -1}, {"idle_s": "long"}]
)
async def test_wrong_change_of_a_pool_is_refused_and_changes_nothing(
    one: Edge, changes: dict[str, Any]
) -> None:
    before = await pool_of(one, POOLS[0])
    status, told = await admin(one, "PATCH", f"/pools/{POOLS[0]}", changes)
    assert (status, told["error"]["type"]) == (400, "invalid_request_error")
    assert await pool_of(one, POOLS[0]) == before


async def test_pool_that_is_not_there_or_disabled_is_not_changed(one: Edge) -> None:
    await admin(one, "DELETE", f"/pools/{POOLS[1]}")
    for name in ("nowhere", POOLS[1]):
        status, _ = await admin(one, "PATCH", f"/pools/{name}", {"max_replicas": 1})
        assert status == 404


async def test_key_is_rotated_at_once_where_no_overlap_is_said(one: Edge) -> None:
    status, told = await admin(one, "POST", f"/keys/{KEY_ID}/rotate")
    assert (status, told["id"]) == (200, KEY_ID)
    assert told["secret"].startswith("sk-sluice-")


async def test_key_cannot_end_before_it_begins(one: Edge) -> None:
    now_s = one.parts.outside.clock()
    for end_s, expected in ((1, 400), (round(now_s) - 1, 400), (round(now_s) + 60, 201)):
        sent = {"project": PROJECT_ID, "name": "x", "expires_at": end_s}
        status, told = await admin(one, "POST", "/keys", sent)
        assert status == expected
        assert status == 201 or told["error"]["param"] == "expires_at"


async def test_leave_is_given_only_for_models_that_there_are(one: Edge) -> None:
    path = f"/entitlements/key:{KEY_ID}"
    status, told = await admin(one, "PUT", path, {"models": ["tale", "gpt-none"]})
    assert (status, told["error"]["param"]) == (400, "models")
    assert "gpt-none" in told["error"]["message"]
    _, listed = await admin(one, "GET", "/entitlements")
    assert listed["data"] == []
    status, told = await admin(one, "PUT", path, {"models": ["tale"]})
    assert (status, told["models"]) == (200, ["tale"])


@pytest.mark.parametrize("narrow", ["", "/model:tale", "/user:*"])
async def test_limits_that_are_put_replace_all_and_patched_ones_only_those_named(
    one: Edge, narrow: str
) -> None:
    path = f"/limits/key:{KEY_ID}{narrow}"
    await admin(one, "PUT", path, {"concurrency": 3, "requests_per_minute": 5})
    _, told = await admin(one, "PATCH", path, {"requests_per_minute": None, "token_burst": 7})
    assert (told["concurrency"], told["requests_per_minute"], told["token_burst"]) == (3, None, 7)
    _, told = await admin(one, "PATCH", path, {})
    assert told["concurrency"] == 3
    _, told = await admin(one, "PUT", path, {"requests_per_minute": 9})
    assert (told["concurrency"], told["requests_per_minute"], told["token_burst"]) == (
        None,
        9,
        None,
    )


async def test_limits_that_are_put_leave_the_budget_of_their_scope_alone(one: Edge) -> None:
    """It is another resource, though kept in the same row."""
    scope = f"key:{KEY_ID}"
    await admin(one, "PUT", f"/budgets/{scope}", {"limit_usd": "5", "window": "total"})
    await admin(one, "PUT", f"/limits/{scope}", {})
    _, listed = await admin(one, "GET", "/budgets")
    assert [(b["scope"], b["limit_usd"]) for b in listed["data"]] == [(scope, "5.00")]


async def test_leave_that_is_put_replaces_all_and_patched_only_what_is_named(one: Edge) -> None:
    path = f"/entitlements/key:{KEY_ID}"
    await admin(one, "PUT", path, {"models": ["tale"], "tiers": ["flex"]})
    _, told = await admin(one, "PATCH", path, {"capacity_classes": ["spot"]})
    whole = (told["models"], told["tiers"], told["capacity_classes"])
    assert whole == (["tale"], ["flex"], ["spot"])
    _, told = await admin(one, "PUT", path, {"tiers": ["default"]})
    whole = (told["models"], told["tiers"], told["capacity_classes"])
    assert whole == (None, ["default"], None)
