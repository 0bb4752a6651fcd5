"""The tier of an organization, in the operator's words, and the rules that read it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.gateway.api.asgi import ask
from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer

OURS = f"/organizations/{ORGANIZATION_ID}"
GOLD = """
apiVersion: gateway/v1
kind: RoutingPolicy
rules:
  - {id: for-gold, when: ['tenant.tier == "gold"'], route: {only: [pool:tale-reserved]}}
default: {route: {}}
"""


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def admin(one: Edge, method: str, path: str, sent: Any) -> tuple[int, Any]:
    return await ask(one.app, method, f"/admin/v1{path}", json.dumps(sent).encode(), "admin")


async def rule_of_a_call(one: Edge) -> str | None:
    answer = await one.post(body())
    assert answer.status == 200, answer.body
    return (await one.explained(answer.headers["x-request-id"])).rule


async def test_calls_of_an_organization_go_by_the_rule_of_its_tier(one: Edge) -> None:
    status, made = await admin(one, "POST", "/policies", {"document": GOLD, "comment": "tiers"})
    assert status == 201, made
    path = f"/policies/{made['version']}/activate"
    assert (await admin(one, "POST", path, {"comment": "tiers"}))[0] == 200
    for tier, rule in ((None, "default"), ("gold", "for-gold"), ("silver", "default")):
        status, changed = await admin(one, "PATCH", OURS, {"tier": tier})
        assert (status, changed["tier"]) == (200, tier)
        assert await rule_of_a_call(one) == rule
    await one.settled()


async def test_a_tier_is_given_at_once_or_later_and_stays_until_it_is_taken_away(one: Edge) -> None:
    made = {"name": "n", "slug": "n", "tier": "gold"}
    status, told = await admin(one, "POST", "/organizations", made)
    assert (status, told["tier"]) == (201, "gold")
    path = f"/organizations/{told['id']}"
    for change, tier in (
        ({"insufficient_quota_status": 402}, "gold"),
        ({"tier": "  silver "}, "silver"),
        ({"tier": None}, None),
    ):
        assert (await admin(one, "PATCH", path, change))[1]["tier"] == tier
    _, listed = await ask(one.app, "GET", "/admin/v1/organizations", b"", "admin")
    assert {row["slug"]: row["tier"] for row in listed["data"]} == {"default": None, "n": None}


@pytest.mark.parametrize("wrong", ["", "  ", "a\nb", 7, ["gold"], "x" * 201])
async def test_a_tier_is_one_line_of_text(one: Edge, wrong: Any) -> None:
    status, told = await admin(one, "PATCH", OURS, {"tier": wrong})
    assert (status, told["error"]["param"]) == (400, "tier")
