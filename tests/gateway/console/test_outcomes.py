"""What canary and shadow of a version chose, on the page of the version."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.queries import CanaryCall
from billing.types import CallStatus
from gateway.admin.outcomes.service import PolicyOutcomes
from gateway.console.calls import NOTHING
from gateway.console.pages.policies.outcomes import outcomes_view
from gateway.decisions.sides import canary_outcomes
from routing.policy.rules import SHARES
from tests.gateway.admin.test_outcomes import activated
from tests.gateway.admin.test_policies import WHY, ask
from tests.gateway.console.test_pages import browser, sign_in
from tests.gateway.decisions.test_outcomes import TWO
from tests.gateway.edge import Edge, body, edge
from tests.gateway.outages import ledger, until
from tests.gateway.policies.stored import document
from tests.redis_server import RedisServer

SECOND_US = 1_000_000


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def look(one: Edge, version: int, query: str = "") -> str:
    async with browser(one) as client:
        await sign_in(client)
        answer = await client.get(f"/console/policies/{version}{query}")
        assert answer.status_code == 200
        text: str = answer.text
        return text


def test_both_sides_stand_there_as_soon_as_one_has_a_call() -> None:
    def view_of(*calls: CanaryCall) -> tuple[list[str], ...]:
        outcomes = PolicyOutcomes(7, 0, 9, canary_outcomes(TWO, calls, []), [])
        (canary,) = outcomes_view(outcomes, 6, now_us=9).canaries
        assert canary.share == f"{100 * (SHARES // 20) / SHARES:g} % of organizations"
        return tuple([[side.name, side.calls, side.ttft] for side in canary.sides])

    answered = CallStatus.ANSWERED
    one = CanaryCall("night", True, answered, 0, SECOND_US, 2 * SECOND_US, 30, 60)
    assert view_of(one) == (["Canary", "1", "1.00 s"], ["Left to the rule", "0", NOTHING])
    assert view_of() == ()


async def test_calls_of_a_canary_stand_on_their_side(
    one: Edge, redis: Redis, tmp_path: Path
) -> None:
    version = await activated(one, "1")
    assert "neither side has anything to compare yet" in await look(one, version, "?hours=24")
    for _ in range(2):
        assert (await one.post(body())).status == 200

    async def are_counted() -> bool:
        _, told = await ask(one, "GET", f"/{version}/outcomes")
        return bool(told["canaries"][0]["canary"]["calls"] == 2)

    async with ledger(redis, tmp_path):
        await until(are_counted)
    page = await look(one, version, "?hours=1")
    assert "100 % of organizations" in page and '<option value="1" selected>' in page
    sides = re.findall(r'scope="row">([^<]+)</th>\s*<td[^>]*data-label="Calls"[^>]*>(\d+)<', page)
    assert sides == [("Canary", "2"), ("Left to the rule", "0")]


async def test_examples_of_a_shadow_lead_to_their_calls(one: Edge) -> None:
    version = await activated(one, "0")
    assert "nothing to compare yet" in await look(one, version, "?hours=24")
    rids = [(await one.post(body())).headers["x-request-id"] for _ in range(2)]
    await one.parts.decision_recorder.close()
    await one.write_decisions()
    page = await look(one, version, "?hours=1")
    assert "Of the newest 2 decisions it would have sent 2 elsewhere" in page
    assert re.findall(r'<a class="rid" href="/console/calls/(\w+)"', page) == rids[::-1]
    assert "tale-reserved, tale" in page and "tale-spot, tale" in page


async def test_version_without_either_says_so_and_a_draft_has_no_such_part(one: Edge) -> None:
    assert "No rule of this version has a canary or a shadow" in await look(one, 1, "?hours=x")
    _, draft = await ask(one, "POST", "", {"document": document(), **WHY})
    assert "canary" not in await look(one, draft["version"])
