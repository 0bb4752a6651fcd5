"""Credits from the outside: given, shown, voided, and what an organization may do with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.credits.grants import VOID_AFTER_US
from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, Edge, body, edge, story
from tests.redis_server import RedisServer

LATER_S = 4_000_000_000
GRANT = {"organization": ORGANIZATION_ID, "category": "paid", "amount_usd": "5"}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def admin(one: Edge, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, told = await ask(one.app, method, f"/admin/v1{path}", raw, "admin")
    if status < 300 and path.startswith("/credits"):
        assert_described(one.app, method, f"/admin/v1{path}", status, told)
    return status, told


async def own(one: Edge) -> Any:
    status, told = await ask(one.app, "GET", "/v1/credits", b"", API_KEY)
    assert status == 200, told
    assert_described(one.app, "GET", "/v1/credits", status, told)
    return told


async def settle(one: Edge, **terms: Any) -> Any:
    status, told = await admin(one, "PATCH", f"/organizations/{ORGANIZATION_ID}", terms)
    assert status == 200, told
    return told


# --- grants ------------------------------------------------------------------------------------


async def test_a_grant_is_given_once_under_its_id_and_another_is_a_conflict(one: Edge) -> None:
    sent = GRANT | {"id": "topup-1", "expires_at": LATER_S, "models": ["tale"], "note": "thanks"}
    status, given = await admin(one, "POST", "/credits", sent)
    assert status == 201
    assert (given["remaining_usd"], given["status"], given["priority"]) == ("5.00", "active", 50)
    assert await admin(one, "POST", "/credits", sent) == (200, given)
    status, told = await admin(one, "POST", "/credits", sent | {"amount_usd": "6"})
    assert (status, told["error"]["code"]) == (409, "conflict")
    assert await admin(one, "GET", "/credits/topup-1") == (200, given)
    status, told = await admin(one, "GET", f"/credits?organization={ORGANIZATION_ID}")
    assert (told["data"], told["has_more"], told["last_id"]) == ([given], False, "topup-1")


async def test_grants_are_listed_page_by_page(one: Edge) -> None:
    for number in range(3):
        await admin(one, "POST", "/credits", GRANT | {"id": f"g{number}"})
    _, first = await admin(one, "GET", "/credits?limit=2")
    assert first["has_more"] is True
    _, second = await admin(one, "GET", f"/credits?limit=2&after={first['last_id']}")
    listed = [grant["id"] for page in (first, second) for grant in page["data"]]
    assert (sorted(listed), second["has_more"]) == (["g0", "g1", "g2"], False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount_usd": "0"},
        {"amount_usd": "-1"},
        {"amount_usd": "a lot"},
        {"amount_usd": "0.0000000001"},
        {"category": "gift"},
        {"priority": 101},
        {"models": ["nobody"]},
        {"effective_at": 5},
        {"expires_at": 5},
        {"id": "../x"},
        {"colour": "red"},
    ],
    ids=str,
)
async def test_a_grant_that_cannot_be_is_refused_in_words(one: Edge, wrong: dict[str, Any]) -> None:
    status, told = await admin(one, "POST", "/credits", GRANT | wrong)
    assert (status, told["error"]["type"]) == (400, "invalid_request_error")
    assert (await admin(one, "GET", "/credits"))[1]["data"] == []


async def test_what_there_is_not_is_404(one: Edge) -> None:
    status, _ = await admin(one, "POST", "/credits", GRANT | {"organization": "nobody"})
    assert status == 404
    for method, path in (("GET", "/credits/nobody"), ("POST", "/credits/nobody/void")):
        assert (await admin(one, method, path))[0] == 404
    assert (await admin(one, "GET", "/credits?after=nobody"))[0] == 400


async def test_a_voided_grant_says_when_it_ends_and_again_says_the_same(one: Edge) -> None:
    await admin(one, "POST", "/credits", GRANT | {"id": "g1"})
    _, voided = await admin(one, "POST", "/credits/g1/void")
    assert voided["voided_at"] is not None and voided["status"] == "active"
    assert await admin(one, "POST", "/credits/g1/void") == (200, voided)
    line = one.parts.accounts.credits._lines[ORGANIZATION_ID]
    (left,) = line.grants
    assert left.ends_us is not None and left.ends_us - left.from_us >= VOID_AFTER_US


# --- what may be spent -------------------------------------------------------------------------


async def test_an_organization_says_how_it_settles(one: Edge) -> None:
    told = await settle(one, settlement_mode="prepaid")
    assert (told["settlement_mode"], told["credit_limit_usd"]) == ("prepaid", None)
    told = await settle(one, credit_limit_usd="2.5")
    assert (told["settlement_mode"], told["credit_limit_usd"]) == ("prepaid", "2.50")
    told = await settle(one, status="active", credit_limit_usd=None, settlement_mode="postpaid")
    assert (told["settlement_mode"], told["credit_limit_usd"]) == ("postpaid", None)
    wrong = f"/organizations/{ORGANIZATION_ID}", {"credit_limit_usd": "-1"}
    assert (await admin(one, "PATCH", *wrong))[0] == 400
    made = {"name": "n", "slug": "n", "settlement_mode": "prepaid", "credit_limit_usd": "1"}
    status, told = await admin(one, "POST", "/organizations", made)
    assert (status, told["settlement_mode"], told["credit_limit_usd"]) == (201, "prepaid", "1.00")


async def test_g25_who_pays_before_and_is_not_known_to_have_credit_is_refused(one: Edge) -> None:
    """Nothing is guessed: not even a call that could be free."""
    await settle(one, settlement_mode="prepaid")
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (429, "insufficient_quota")
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers
    assert "/v1/credits" in refused.json["error"]["message"]
    assert not one.upstream.requests
    assert (await one.post(body(model="free"))).error_code == "model_not_priced"
    assert await own(one) | {"grants": []} == {
        "object": "credits",
        "organization": ORGANIZATION_ID,
        "data": {"total_credits": 0, "total_usage": 0},
        "balance_usd": "0.00",
        "held_usd": "0.00",
        "credit_limit_usd": "0.00",
        "available_usd": "0.00",
        "grants": [],
    }


async def test_g50_prepaid_credit_is_used_up_to_its_end_and_a_top_up_counts_at_once(
    one: Edge,
) -> None:
    one.upstream.behaviour = lambda _: story(frames=4)
    await settle(one, settlement_mode="prepaid")
    await admin(one, "POST", "/credits", GRANT | {"id": "first", "amount_usd": "0.0005"})
    statuses = [(await one.post(body())).status for _ in range(12)]
    assert statuses == sorted(statuses, key=lambda status: status or 0), "and none after the first"
    assert set(statuses) == {200, 429}
    closed = await one.settled()
    spent = sum(call.amount_nanousd for call in closed.values())
    assert spent <= 500_000
    told = await own(one)
    assert told["data"]["total_usage"] == spent / 1e9
    assert told["balance_usd"] == told["available_usd"]
    await admin(one, "POST", "/credits", GRANT | {"id": "second"})
    assert (await one.post(body())).status == 200
    assert (await own(one))["data"]["total_credits"] == 5.0005


async def test_a_grant_for_another_model_or_of_another_time_does_not_count(one: Edge) -> None:
    await settle(one, settlement_mode="prepaid")
    for wrong in ({"models": ["vectors"]}, {"effective_at": LATER_S}):
        await admin(one, "POST", "/credits", GRANT | wrong)
    assert (await one.post(body())).status == 429
    sent = {"model": "vectors", "input": "one two"}
    one.upstream.behaviour = lambda _: story()
    assert (await one.post(sent, path="/v1/embeddings")).error_code != "insufficient_quota"


async def test_who_pays_afterwards_may_owe_its_limit_and_no_more(one: Edge) -> None:
    one.upstream.behaviour = lambda _: story(frames=4)
    await settle(one, credit_limit_usd="0.0005")
    statuses = [(await one.post(body())).status for _ in range(12)]
    assert statuses.count(200) and statuses.count(429)
    closed = await one.settled()
    assert sum(call.amount_nanousd for call in closed.values()) <= 500_000
    assert (await own(one))["credit_limit_usd"] == "0.0005"
    await settle(one, credit_limit_usd=None)
    assert (await one.post(body())).status == 200
    assert (await own(one))["available_usd"] is None


async def test_output_stops_where_the_credit_ends(one: Edge) -> None:
    one.upstream.behaviour = lambda _: story(frames=400, tokens_a_frame=2)
    await settle(one, settlement_mode="prepaid")
    await admin(one, "POST", "/credits", GRANT | {"amount_usd": "0.002"})
    stopped = await one.post(body(max_tokens=2000))
    assert stopped.status == 200
    assert stopped.chunks[-2]["choices"][0]["finish_reason"] == "length"
    (call,) = (await one.settled()).values()
    assert (call.finish_reason, call.error_code) == ("length", "budget_exhausted")
    assert 0 < call.amount_nanousd <= 2_000_000


async def test_g21_a_hundred_calls_at_the_last_dollar_settle_within_it(one: Edge) -> None:
    """Each may cost a twentieth of what is left, and none ends before all of them were heard."""
    all_heard = asyncio.Event()
    one.upstream.behaviour = lambda _: fake.Script([fake.Wait(all_heard), *story(frames=4).acts])
    await settle(one, settlement_mode="prepaid")
    await admin(one, "POST", "/credits", GRANT | {"amount_usd": "0.01"})
    calls = [asyncio.create_task(one.post(body())) for _ in range(100)]
    async with asyncio.timeout(60):
        while sum(call.done() for call in calls) + len(one.upstream.requests) < 100:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    all_heard.set()
    answers = await asyncio.gather(*calls)
    assert {answer.status for answer in answers} == {200, 429}
    closed = await one.settled()
    assert sum(call.amount_nanousd for call in closed.values()) <= 10_000_000
