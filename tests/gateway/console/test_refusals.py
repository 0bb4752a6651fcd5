"""Refused calls in the console: listed, filtered, paged, and explained like any other call."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.db.engine import open_store
from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.console.pages.refusals import page as page_of_refusals
from gateway.console.pages.refusals.rows import refusal_view
from gateway.decisions.refusals import EACH_MAX
from tests.billing.refusals.test_store import refusal
from tests.gateway.console.test_pages import HOSTILE, browser, sign_in
from tests.gateway.decisions.test_refusals import handed_over
from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer

HOME = "/console/refusals"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path, limits={"requests_per_minute": 1}) as running:
        yield running


async def look(one: Edge, path: str = HOME) -> str:
    async with browser(one) as client:
        await sign_in(client)
        answer = await client.get(path)
        assert answer.status_code == 200
        text: str = answer.text
        return text


async def above_its_limit(one: Edge, calls: int = 1) -> list[str]:
    """Ids of calls that were refused."""
    await one.post(body())
    return [(await one.post(body())).headers["x-request-id"] for _ in range(calls)]


def ids(page: str) -> list[str]:
    return re.findall(r'<tr role="row" id="([^"]+)"', page)


def test_when_is_said_where_a_wait_cures() -> None:
    cured = refusal_view(refusal("req_1", retry_after_s=12.0), str, now_us=9)
    assert (cured.again, cured.reason) == ("12 s", "limit")
    assert refusal_view(refusal("req_1"), str, now_us=9).again == ""


async def test_refused_call_is_listed_with_who_why_and_when(one: Edge) -> None:
    (rid,) = await above_its_limit(one)
    (row,) = await handed_over(one)
    assert row["retry_after_s"] > 0
    page = await look(one)
    assert ids(page) == [rid]
    assert "Rate limit reached" in page and "rate_limit_exceeded" in page
    assert re.search(r"\d (s|min) later", page)
    assert f'href="/console/calls/{rid}"' in page


async def test_page_of_a_refused_call_has_its_candidates_and_nothing_of_an_answer(
    one: Edge,
) -> None:
    (rid,) = await above_its_limit(one)
    await handed_over(one)
    page = await look(one, f"/console/calls/{rid}")
    assert "Why, and what it needed" in page and "Rate limit reached" in page
    assert "tale-reserved" in page and 'id="clauses-title"' in page
    assert re.search(r"\d (s|min) later", page)
    for title in ("tries-title", "usage-title", "transfers-title", "time-title"):
        assert title not in page


async def test_page_of_a_call_that_no_pool_could_take_says_what_each_lacks(one: Edge) -> None:
    await one.publish_fleet(others="no node", blocked="no node")
    rid = (await one.post(body())).headers["x-request-id"]
    await handed_over(one)
    page = await look(one, f"/console/calls/{rid}")
    assert "no node" in page and page.count("ruled out</span>") > 1


async def test_calls_of_a_flood_that_share_a_row_are_counted(one: Edge) -> None:
    one.watch.stands_at_s = -(-one.watch() // 60) * 60
    refused = await above_its_limit(one, EACH_MAX + 3)
    await handed_over(one)
    page = await look(one)
    assert len(ids(page)) == EACH_MAX + 1 and "and 2 more" in page
    shared = await look(one, f"/console/calls/{refused[EACH_MAX]}")
    assert "so were 2 more calls of this key" in shared


async def test_list_is_filtered_and_paged(one: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_of_refusals, "ROWS", 2)
    limited = await above_its_limit(one, 3)
    await one.publish_fleet(others="no node", blocked="no node")
    nowhere = (await one.post(body(service_tier="flex"))).headers["x-request-id"]
    await handed_over(one)
    assert ids(await look(one, f"{HOME}?reason=capacity")) == [nowhere]
    assert ids(await look(one, f"{HOME}?rule=flex")) == [nowhere]
    assert "No such call was refused" in await look(one, f"{HOME}?organization=org_other")
    seen, path = [], f"{HOME}?reason=limit&organization={ORGANIZATION_ID}"
    while path:
        page = await look(one, path)
        assert '<option value="limit" selected>' in page
        seen += ids(page)
        more = re.search(r'class="more"><a href="([^"]+)"', page)
        path = more[1].replace("&amp;", "&") if more else ""
    assert seen == limited[::-1]


async def test_list_without_a_row_says_so(one: Edge) -> None:
    assert "No call was refused" in await look(one)


async def test_strangers_wrong_pages_and_a_lost_database_are_met(one: Edge) -> None:
    async with browser(one) as client:
        assert (await client.get(HOME)).headers["location"].startswith("/console/login")
        await sign_in(client)
        lost = await client.get(f"{HOME}?after=nothing")
        assert (lost.status_code, lost.headers["location"]) == (303, HOME)
        strange = await client.get(HOME, params={"rule": f"{HOSTILE}\0", "reason": "tired"})
        assert strange.status_code == 200 and "<script>alert" not in strange.text
        away: Any = open_store("sqlite:////nowhere/at/all.db")
        one.parts.ledger.engine = away.engine
        answer = await client.get(HOME)
        assert (answer.status_code, "does not answer" in answer.text) == (503, True)
