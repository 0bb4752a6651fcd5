"""Thresholds of credit by the admin API, and the list in which their alerts stand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.budgets import store as budgets
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, Edge, edge
from tests.redis_server import RedisServer

TOLD = "/admin/v1/budgets/alerts"
OURS = f"/admin/v1/organizations/{ORGANIZATION_ID}/credit-alerts"
NOTHING = {"below_usd": [], "below_percent": []}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        grant = {"organization": ORGANIZATION_ID, "category": "paid", "amount_usd": "4", "id": "g1"}
        assert (await admin(running, "POST", "/admin/v1/credits", grant))[0] == 201
        yield running


async def admin(one: Edge, method: str, target: str, sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, target, raw, "admin")
    if status == 200:
        assert_described(one.app, method, target, status, answer)
    return status, answer


async def alerts(one: Edge, query: str = "") -> list[dict[str, Any]]:
    status, answer = await admin(one, "GET", f"{TOLD}{query}")
    assert status == 200, answer
    found: list[dict[str, Any]] = answer["data"]
    return found


async def test_thresholds_are_set_whole_and_shown(one: Edge) -> None:
    status, shown = await admin(one, "PUT", OURS, {"below_usd": ["1", "2.5"], "below_percent": [9]})
    assert (status, shown["below_usd"], shown["below_percent"]) == (200, ["1.00", "2.50"], [9])
    assert (shown["remaining_usd"], shown["granted_usd"]) == ("4.00", "4.00")
    assert shown["told"] == NOTHING
    assert await admin(one, "GET", OURS) == (200, shown)
    _, shown = await admin(one, "PUT", OURS, {})
    assert {name: shown[name] for name in NOTHING} == NOTHING


async def test_what_is_low_is_told_in_the_list_of_alerts(one: Edge) -> None:
    await admin(one, "PUT", OURS, {"below_usd": ["5"]})
    (alert,) = await alerts(one)
    assert alert.pop("raised_at")
    assert alert == {
        "object": "credit.alert",
        "organization": ORGANIZATION_ID,
        "percent": None,
        "limit_usd": "5.00",
        "remaining_usd": "4.00",
        "granted_usd": "4.00",
    }
    assert len(await alerts(one, f"?organization={ORGANIZATION_ID}")) == 1
    assert await alerts(one, "?organization=org_other") == []
    assert await alerts(one, "?before=5") == []


async def test_alerts_of_budgets_and_of_credit_are_one_list_the_newest_first(one: Edge) -> None:
    scope = {"scope": f"org:{ORGANIZATION_ID}", "name": "b", "limit_usd": "1"}
    _, made = await admin(one, "POST", "/admin/v1/budgets", scope | {"window": {"kind": "day"}})
    await admin(one, "PUT", OURS, {"below_usd": ["5"]})
    row = {
        "budget_id": made["id"],
        "subject": "",
        "org": ORGANIZATION_ID,
        "spent_nanousd": 7,
        "amount_nanousd": 10**9,
    }
    with one.parts.ledger.write() as conn:
        for percent, raised_us in ((1, 1), (2, 4 * 10**15)):
            told = {"bucket_us": raised_us, "percent": percent, "raised_us": raised_us}
            budgets.insert_alerts(conn, [row | told])
    kinds = [(alert["object"], alert["percent"]) for alert in await alerts(one)]
    assert kinds == [("budget.alert", 2), ("credit.alert", None), ("budget.alert", 1)]
    assert [alert["object"] for alert in await alerts(one, "?limit=2")] == [k for k, _ in kinds[:2]]
    assert {a["object"] for a in await alerts(one, f"?budget={made['id']}")} == {"budget.alert"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"below_usd": ["0"]},
        {"below_usd": ["-1"]},
        {"below_usd": ["much"]},
        {"below_usd": ["9" * 30]},
        {"below_usd": [1.5]},
        {"below_percent": [0]},
        {"below_percent": [101]},
        {"below_percent": ["half"]},
        {"below_percent": [1] * 21},
        {"below": ["1"]},
    ],
    ids=str,
)
async def test_thresholds_that_cannot_be_are_refused(one: Edge, wrong: dict[str, Any]) -> None:
    assert (await admin(one, "PUT", OURS, wrong))[0] == 400
    assert (await admin(one, "GET", OURS))[1]["below_usd"] == []


async def test_an_organization_that_is_not_there_is_404(one: Edge) -> None:
    nobody = "/admin/v1/organizations/nobody/credit-alerts"
    assert (await admin(one, "PUT", nobody, {}))[0] == 404
    assert (await admin(one, "GET", nobody))[0] == 404


async def test_thresholds_are_no_tenants_business(one: Edge) -> None:
    assert (await ask(one.app, "GET", OURS, b"", API_KEY))[0] == 401
