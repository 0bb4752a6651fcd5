"""Budgets over windows from the outside: made by an administrator, they bind, stand and tell."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.budgets.budget import digest_of
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, EMBEDDINGS, Edge, body, edge, story
from tests.redis_server import RedisServer

OWNERS = (f"key:{KEY_ID}", f"project:{PROJECT_ID}", f"org:{ORGANIZATION_ID}")
MONTHLY = {"kind": "month", "time_zone": "Europe/Berlin"}
WINDOWS: tuple[dict[str, Any], ...] = (
    {"kind": "total"},
    {"kind": "day", "time_zone": "America/New_York", "anchor": "2026-01-01T09:00:00"},
    MONTHLY,
    {"kind": "rolling", "seconds": 3600},
)


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def admin(one: Edge, method: str, path: str, sent: Any = None) -> Any:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, told = await ask(one.app, method, f"/admin/v1/budgets{path}", raw, "admin")
    assert status < 300, told
    assert_described(one.app, method, f"/admin/v1/budgets{path}", status, told)
    return told


async def make(one: Edge, scope: str = OWNERS[0], **changes: Any) -> dict[str, Any]:
    asked = {"scope": scope, "name": "the cap", "limit_usd": "1", "window": {"kind": "total"}}
    made: dict[str, Any] = await admin(one, "POST", "", asked | changes)
    return made


async def state(one: Edge, made: dict[str, Any], query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = (await admin(one, "GET", f"/{made['id']}{query}"))["state"]
    return found


def nano(text: str) -> int:
    return round(float(text) * 1e9)


async def costs_of_one(one: Edge) -> int:
    """What one story costs, in nano-USD."""
    assert (await one.post(body())).status == 200
    return max(call.amount_nanousd for call in (await one.settled()).values())


@pytest.mark.parametrize("window", WINDOWS, ids=[w["kind"] for w in WINDOWS])
@pytest.mark.parametrize("owner", [*OWNERS, f"{OWNERS[1]}/user:*", f"{OWNERS[0]}/user:alice"])
async def test_g32_budget_that_was_saved_is_enforced_by_the_next_call(
    one: Edge, owner: str, window: dict[str, Any]
) -> None:
    """bifrost#5673: saved budgets that nobody enforced."""
    sent = body(user="alice")
    made = await make(one, owner, window=window, limit_usd="0.000000001")
    assert made["window"].items() >= window.items() and made["scope"] == owner
    refused = await one.post(sent)
    assert (refused.status, refused.error_code) == (429, "insufficient_quota")
    assert "the cap" in refused.json["error"]["message"]
    assert refused.headers["x-should-retry"] == "false" and "retry-after" not in refused.headers
    await admin(one, "PATCH", f"/{made['id']}", {"limit_usd": "1"})
    assert (await one.post(sent)).status == 200
    await admin(one, "PATCH", f"/{made['id']}", {"limit_usd": "0"})
    assert (await one.post(sent)).status == 429
    await admin(one, "DELETE", f"/{made['id']}")
    assert (await one.post(sent)).status == 200
    await one.settled()


@pytest.mark.parametrize("window", WINDOWS, ids=[w["kind"] for w in WINDOWS])
async def test_a_budget_tells_how_it_stands(one: Edge, window: dict[str, Any]) -> None:
    made = await make(one, window=window)
    cost = await costs_of_one(one)
    found = await state(one, made)
    assert (nano(found["spent_usd"]), found["held_usd"]) == (cost, "0.00")
    assert nano(found["remaining_usd"]) == 10**9 - cost
    assert (found["resets_at"] is None) == (window["kind"] in ("total", "rolling"))
    _, key = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert [told["state"]["spent_usd"] for told in key["budgets"]] == [found["spent_usd"]]
    listed = (await admin(one, "GET", ""))["data"]
    assert [told["id"] for told in listed if "id" in told] == [made["id"]]


async def test_generation_stops_when_the_money_of_a_budget_is_spent(one: Edge) -> None:
    one.upstream.behaviour = lambda _: story(frames=400)
    made = await make(one, limit_usd="0.002")
    stopped = await one.post(body(max_tokens=2000))
    assert stopped.status == 200
    assert stopped.chunks[-2]["choices"][0]["finish_reason"] == "length"
    (call,) = (await one.settled()).values()
    assert call.error_code == "budget_exhausted"
    assert 10**6 < call.amount_nanousd <= 2 * 10**6
    assert nano((await state(one, made))["spent_usd"]) == call.amount_nanousd


async def test_the_tightest_of_several_budgets_binds_and_a_refusal_takes_of_none(
    one: Edge,
) -> None:
    wide = await make(one, OWNERS[2], name="wide", window=MONTHLY)
    tight = await make(one, OWNERS[1], name="tight", window=WINDOWS[3], limit_usd="0.000000001")
    refused = await one.post(body())
    assert "'tight'" in refused.json["error"]["message"]
    assert (await state(one, wide))["held_usd"] == "0.00"
    await admin(one, "DELETE", f"/{tight['id']}")
    assert (await one.post(body())).status == 200


async def test_a_refusal_says_when_a_period_begins_anew(one: Edge) -> None:
    made = await make(one, window=MONTHLY, limit_usd="0")
    refused = await one.post(body())
    resets_at = (await state(one, made))["resets_at"].removesuffix("+00:00")
    assert f"anew at {resets_at}Z" in refused.json["error"]["message"]


async def test_a_soft_budget_stops_nobody(one: Edge) -> None:
    made = await make(one, hard=False, limit_usd="0.000000001", alerts=[100])
    assert (await one.post(body())).status == 200
    found = await state(one, made)
    assert found["held_usd"] is None, "nothing is held of it; the ledger's sums say what is spent"
    (opened,) = [call for call in (await one.settled()).values()]
    assert [share.budget for share in opened.budgets] == [made["id"]]
    assert await one.redis.keys("*budget:*") == []


async def test_end_users_have_a_purse_each_and_some_their_own(one: Edge) -> None:
    each = await make(one, f"{OWNERS[2]}/user:*", limit_usd="1")
    own = await make(one, f"{OWNERS[2]}/user:bob", limit_usd="0.000000001")
    assert (await one.post(body(user="alice"))).status == 200
    assert (await one.post(body(user="eve"))).status == 200
    assert (await one.post(body(user="bob"))).status == 429, "his own stands in its place"
    costs = [call.amount_nanousd for call in (await one.settled()).values()]
    for name, cost in (("alice", costs[0]), ("eve", costs[1]), ("zoe", 0)):
        found = await state(one, each, f"?end_user={name}")
        assert nano(found["spent_usd"]) == cost
    assert (await admin(one, "GET", f"/{each['id']}"))["state"] is None
    assert (await state(one, own))["spent_usd"] == "0.00"
    for key in await one.redis.keys("*budget:*"):
        assert b"alice" not in key
    assert await one.redis.keys(f"*{digest_of('alice')}*")


@pytest.mark.parametrize("which", ["*", "alice"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", EMBEDDINGS])
async def test_g33_a_cap_of_end_users_is_not_evaded_by_naming_none(
    one: Edge, which: str, path: str
) -> None:
    sent: dict[str, Any] = body()
    if path == EMBEDDINGS:
        sent = {"model": "vectors", "input": "Once"}
    made = await make(one, f"{OWNERS[1]}/user:{which}")
    for nobody in ({}, {"user": ""}, {"user": None}):
        refused = await one.refused(sent | nobody, path=path)
        assert (refused.status, refused.error_code) == (400, "end_user_required")
    _, key = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert key["end_user_required"] is True
    await admin(one, "DELETE", f"/{made['id']}")
    if path != EMBEDDINGS:
        await make(one, f"{OWNERS[1]}/user:{which}", hard=False)
        assert (await one.post(sent)).status == 200, "what only watches asks for nobody"


@pytest.mark.parametrize("owner", OWNERS)
async def test_g29_a_budget_binds_in_the_scope_it_is_made_for(one: Edge, owner: str) -> None:
    """LiteLLM#27381: limits that were made and never asked."""
    status, told = await ask(
        one.app, "POST", "/admin/v1/projects", b'{"organization":"org_default","name":"x"}', "admin"
    )
    raw = json.dumps({"project": told["id"], "name": "other"}).encode()
    status, other = await ask(one.app, "POST", "/admin/v1/keys", raw, "admin")
    assert status == 201, other
    await make(one, owner, limit_usd="0")
    assert (await one.post(body())).status == 429
    elsewhere = await one.post(body(), headers={"authorization": f"Bearer {other['secret']}"})
    assert elsewhere.status == (429 if owner.startswith("org:") else 200)


async def test_a_call_without_budgets_asks_redis_for_no_purse(one: Edge) -> None:
    assert (await one.post(body())).status == 200
    (call,) = (await one.settled()).values()
    assert call.budgets == []


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"window": {"kind": "fortnight"}}, "window.kind"),
        ({"window": {"kind": "day", "time_zone": "Mars/Base"}}, "window"),
        ({"window": {"kind": "day", "anchor": "tomorrow"}}, "window"),
        ({"window": {"kind": "day", "anchor": "2026-01-01T00:00:00Z"}}, "window.anchor"),
        ({"window": {"kind": "rolling"}}, "window"),
        ({"window": {"kind": "rolling", "seconds": 5}}, "window"),
        ({"window": {"kind": "total", "time_zone": "UTC"}}, "window"),
        ({"limit_usd": "-1"}, "limit_usd"),
        ({"limit_usd": "ten"}, "limit_usd"),
        ({"limit_usd": "10000000"}, None),
        ({"alerts": [0]}, "alerts.0"),
        ({"alerts": [50] * 11}, "alerts"),
        ({"scope": "team:1"}, "scope"),
        ({"scope": f"{OWNERS[0]}/model:tale"}, "scope"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_wrong_budgets_are_refused_in_words(
    one: Edge, changes: dict[str, Any], param: str | None
) -> None:
    asked = {"scope": OWNERS[0], "name": "x", "limit_usd": "1", "window": {"kind": "total"}}
    raw = json.dumps(asked | changes).encode()
    status, told = await ask(one.app, "POST", "/admin/v1/budgets", raw, "admin")
    assert status == 400, told
    assert told["error"]["param"] == param


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/bud_none"), ("PATCH", "/bud_none"), ("DELETE", "/bud_none")],
)
async def test_budgets_that_are_not_there(one: Edge, method: str, path: str) -> None:
    raw = b'{"name":"x"}' if method == "PATCH" else b""
    status, told = await ask(one.app, method, f"/admin/v1/budgets{path}", raw, "admin")
    assert (status, told["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_list_of_alerts_is_no_budget(one: Edge, method: str) -> None:
    raw = b"" if method == "DELETE" else b"{}"
    status, told = await ask(one.app, method, "/admin/v1/budgets/alerts", raw, "admin")
    assert (status, told["error"]["code"]) == (405, "method_not_allowed")


async def test_owners_that_are_not_there_have_no_budgets(one: Edge) -> None:
    asked = {"scope": "key:none", "name": "x", "limit_usd": "1", "window": {"kind": "total"}}
    raw = json.dumps(asked).encode()
    status, _ = await ask(one.app, "POST", "/admin/v1/budgets", raw, "admin")
    assert status == 404


async def test_windows_of_a_large_soft_budget_may_be_of_any_size(one: Edge) -> None:
    made = await make(one, hard=False, limit_usd="9000000000")
    raw = json.dumps({"limit_usd": "8000000000"}).encode()
    path = f"/admin/v1/budgets/{made['id']}"
    status, told = await ask(one.app, "PATCH", path, raw, "admin")
    assert (status, told["limit_usd"]) == (200, "8000000000.00")
