"""Budgets with a ledger behind them: alerts, soft sums, a Redis that is away or wiped, and a change
that another gateway made."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.db.engine import Store
from billing.types import SettledCall
from gateway.admin.budgets.schemas import BudgetChange
from gateway.admin.budgets.service import BudgetService
from gateway.admin.limits.service import LimitService
from gateway.admin.use_cases import AdminStore
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, Edge, Response, body, edge, story
from tests.gateway.limits.test_budgets import MONTHLY, OWNERS, admin, make, nano, state
from tests.gateway.outages import OUTAGES, declare, ledger, stopped, until, whole
from tests.redis_server import RedisServer

DEN = 1_000_000_000
QUICK: dict[str, Any] = {
    "limiter": {"timeout_ms": 1_000.0, "open_s": 1.0, "failures_max": 1},
    "catalog_poll_s": 0.2,
}

ROLLING = {"kind": "rolling", "seconds": 86_400}


def in_the_long_run(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path, gateway=QUICK) as running:
        yield running


@pytest.fixture
async def booked(one: Edge, redis: Redis, tmp_path: Path) -> AsyncIterator[Store]:
    async with ledger(redis, tmp_path) as store:
        await takes_calls(one)
        yield store


async def takes_calls(one: Edge, **changes: Any) -> None:
    """By Redis, not by itself."""

    async def admitted() -> bool:
        response = await one.post(body(max_tokens=1, **changes))
        return response.status == 200 and not one.parts.accounts.unsettled_count

    await until(admitted)


async def alerts(one: Edge, query: str = "") -> list[dict[str, Any]]:
    return list((await admin(one, "GET", f"/alerts{query}"))["data"])


async def test_soft_budget_tells_what_was_spent_and_alerts_once(one: Edge, booked: Store) -> None:
    made = await make(
        one, hard=False, limit_usd="0.0001", alerts=[50, 100, 1000], window=MONTHLY, name="a watch"
    )
    for number in range(1, 4):
        assert (await one.post(body())).status == 200
        await whole(one, booked)
        spent = nano((await state(one, made))["spent_usd"])
        assert spent == number * 50_000
        reached = [alert["percent"] for alert in await alerts(one)]
        assert sorted(reached) == [percent for percent in (50, 100) if spent >= percent * 1_000]
    newest = (await alerts(one, f"?budget={made['id']}&limit=1"))[0]
    assert (newest["percent"], newest["name"], newest["scope"]) == (100, "a watch", OWNERS[0])
    assert (newest["limit_usd"], newest["spent_usd"]) == ("0.0001", "0.0001")
    assert newest["period_starts_at"] is not None
    assert await alerts(one, "?organization=org_other") == []
    assert await alerts(one, "?before=1000000000") == []


@pytest.mark.parametrize(
    "which",
    [
        OWNERS[0],
        f"{OWNERS[2]}/user:*",
        *map(in_the_long_run, (*OWNERS[1:], f"{OWNERS[1]}/user:alice")),
    ],
)
async def test_g25_a_hard_budget_is_denied_while_redis_is_away_unless_a_cap_is_declared(
    one: Edge, booked: Store, redis_server: RedisServer, which: str
) -> None:
    """And what was spent meanwhile counts against it afterwards."""
    sent = body(user="alice")
    soft = await make(one, which, hard=False)
    with stopped(redis_server):
        assert (await one.post(sent)).status == 200, "what only watches is not at risk"
    await takes_calls(one, user="alice")
    await admin(one, "DELETE", f"/{soft['id']}")
    made = await make(one, which)
    with stopped(redis_server):
        denied = await one.post(sent)
        assert (denied.status, denied.error_code) == (503, "server_is_overloaded")
        await declare(one, "local", DEN)
        assert (await one.post(sent)).status == 200
    await takes_calls(one, user="alice")
    await whole(one, booked)
    query = "?end_user=alice" if "user:" in which else ""
    bound = bound_by(one, made)
    spent = nano((await state(one, made, query))["spent_usd"])
    assert spent == sum(call.amount_nanousd for call in bound) > 0


def bound_by(one: Edge, made: dict[str, Any]) -> list[SettledCall]:
    """Every call that has ended under a budget, by the spool."""
    _, closed = one.spooled()
    return [c for c in closed.values() if made["id"] in [share.budget for share in c.budgets]]


@pytest.mark.parametrize(
    ("outage", "window"),
    [
        *(("stopped", MONTHLY), ("killed", ROLLING), ("wiped", MONTHLY)),
        in_the_long_run("stopped", ROLLING),
        in_the_long_run("killed", MONTHLY),
        in_the_long_run("wiped", ROLLING),
    ],
)
async def test_g23_a_budget_is_what_it_was_after_redis_was_lost(
    one: Edge, booked: Store, redis_server: RedisServer, outage: str, window: dict[str, Any]
) -> None:
    made = await make(one, window=window, limit_usd="0.01")
    for _ in range(3):
        assert (await one.post(body())).status == 200
    await whole(one, booked)
    before = await state(one, made)
    assert nano(before["spent_usd"]) == 150_000
    with OUTAGES[outage](redis_server):
        assert (await one.post(body())).status == 503
    await one.publish_fleet(one.replica())
    await takes_calls(one)
    await whole(one, booked)
    calls = bound_by(one, made)
    after = await state(one, made)
    assert nano(after["spent_usd"]) == sum(call.amount_nanousd for call in calls) > 150_000
    assert after["held_usd"] == "0.00"
    await admin(one, "PATCH", f"/{made['id']}", {"limit_usd": after["spent_usd"]})
    assert (await one.post(body())).status == 429


async def test_a_budget_outlives_a_redis_that_is_wiped_in_the_middle_of_a_call(
    one: Edge, booked: Store, redis_server: RedisServer
) -> None:
    made = await make(one, limit_usd="0.01", window={"kind": "rolling", "seconds": 3600})
    one.upstream.scripts.append(story(frames=60, pause_s=0.05))
    running: asyncio.Task[Response] = asyncio.create_task(one.post(body(max_tokens=300)))
    async with asyncio.timeout(30):
        while not one.parts.accounts.open:  # noqa: ASYNC110 - nobody tells of a call's beginning
            await asyncio.sleep(0.01)
    with OUTAGES["wiped"](redis_server):
        pass
    assert (await running).status == 200
    await one.publish_fleet(one.replica())
    await takes_calls(one)
    await whole(one, booked)
    calls = bound_by(one, made)
    found = await state(one, made)
    assert nano(found["spent_usd"]) == sum(call.amount_nanousd for call in calls)
    assert found["held_usd"] == "0.00"


async def test_g48_a_budget_that_another_gateway_made_binds_here_within_seconds(one: Edge) -> None:
    """Nothing tells this gateway but the revision of the catalog, which it polls."""
    assert (await one.post(body())).status == 200
    parts = one.parts
    store = AdminStore(parts.tenants, parts.outside.clock, forget=lambda: None)
    elsewhere = BudgetService(
        store=store,
        limits=LimitService(store),
        ledger=parts.ledger,
        standings=parts.standings,
        accounts=parts.accounts,
        new_id=parts.new_id,
    )

    async def refused() -> bool:
        return (await one.post(body())).status == 429

    made = await make(one, limit_usd="1")
    await elsewhere.change(made["id"], BudgetChange(limit_usd="0"))
    await until(refused, within_s=30.0)
    await elsewhere.end(made["id"])
    await until(lambda: _answered(one), within_s=30.0)


async def _answered(one: Edge) -> bool:
    return (await one.post(body())).status == 200


async def test_key_is_told_every_budget_that_binds_it(one: Edge) -> None:
    for owner in (*OWNERS, f"{OWNERS[1]}/user:*"):
        await make(one, owner, name=owner)
    raw = json.dumps({"project": PROJECT_ID, "name": "other"}).encode()
    _, other = await ask(one.app, "POST", "/admin/v1/keys", raw, "admin")
    await make(one, f"key:{other['id']}", name="of another key")
    _, told = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert {budget["scope"] for budget in told["budgets"]} == {*OWNERS, f"{OWNERS[1]}/user:*"}
    assert {ORGANIZATION_ID} == {budget["organization"] for budget in told["budgets"]}
    states = {budget["scope"]: budget["state"] for budget in told["budgets"]}
    assert states.pop(f"{OWNERS[1]}/user:*") is None
    assert {found["remaining_usd"] for found in states.values()} == {"1.00"}
    assert f"key:{KEY_ID}" in states
