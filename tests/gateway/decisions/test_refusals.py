"""Which calls were refused is known, and a flood of them leaves few rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from billing import queries
from billing.refusals.refusal import Refusal
from gateway.admin.refusals.schemas import RefusalAnswer
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID
from gateway.decisions import refusals
from gateway.decisions.refusals import EACH_MAX, MINUTE_US, RefusalTally, TurnedAway
from routing.types import RefusalKind
from tests.billing.refusals.test_store import refusal
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.console.test_pages import browser, sign_in
from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer

LIST, ADMIN = "/admin/v1/refusals", "admin"

ANY_REFUSAL = st.builds(
    refusal,
    st.uuids().map(str),
    st.integers(0, 3 * MINUTE_US),
    key=st.sampled_from(["key_1", "key_2"]),
    reason=st.sampled_from(["limit", "capacity"]),
    rule=st.sampled_from(["default", "night"]),
)


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path, limits={"requests_per_minute": 1}) as running:
        yield running


async def listed(one: Edge, query: str = "") -> Any:
    status, told = await ask(one.app, "GET", f"{LIST}{query}", b"", ADMIN)
    assert_described(one.app, "GET", LIST, status, told)
    assert status == 200, told
    return told["data"]


@pytest.mark.parametrize("reason", [*RefusalKind, *TurnedAway])
def test_answer_knows_every_reason(reason: str) -> None:
    answer = RefusalAnswer.model_validate(refusal("req_1", reason=reason))
    assert answer.reason == reason


@given(st.lists(ANY_REFUSAL, max_size=80), st.integers(0, 80))
def test_every_refused_call_is_counted_once_in_few_rows(
    refused: list[Refusal], taken_after: int
) -> None:
    tally, rows = RefusalTally(), list[Refusal]()
    for place, each in enumerate(sorted(refused, key=lambda row: row.at_us)):
        tally.add(each)
        if place == taken_after:
            rows += tally.take(each.at_us)
    rows += tally.take()
    assert sum(row.calls for row in rows) == len(refused) and not tally.lost
    assert len({row.rid for row in rows}) == len(rows)
    alike = Counter((r.key, r.reason, r.rule, r.at_us // MINUTE_US) for r in rows)
    assert max(alike.values(), default=0) <= EACH_MAX + 1
    assert all(row.at_us // MINUTE_US == row.until_us // MINUTE_US for row in rows)
    assert not tally.take()


def test_flood_of_keys_is_bounded_and_what_is_lost_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refusals, "GROUPS_MAX", 3)
    tally = RefusalTally()
    for number in range(9):
        tally.add(refusal(f"req_{number}", key=f"key_{number}"))
    assert (len(tally.take()), tally.lost) == (3, 6)


async def test_flood_of_429_leaves_few_rows_and_records_and_all_are_counted(one: Edge) -> None:
    minute_s = -(-one.watch() // 60) * 60
    one.watch.stands_at_s = minute_s
    await one.post(body())
    refused = []
    for number in range(EACH_MAX + 5):
        one.watch.stands_at_s = minute_s + number / 100
        refused.append(await one.post(body()))
    assert {response.status for response in refused} == {429}
    ids = [response.headers["x-request-id"] for response in refused]
    rows = await handed_over(one)
    assert (len(rows), sum(row["calls"] for row in rows)) == (EACH_MAX + 1, EACH_MAX + 5)
    assert [row["id"] for row in rows[::-1]] == ids[: EACH_MAX + 1]
    assert [row["calls"] for row in rows] == [5] + [1] * EACH_MAX
    first = rows[-1]
    assert (first["reason"], first["error_code"]) == ("limit", "rate_limit_exceeded")
    assert (first["organization"], first["key"]) == (ORGANIZATION_ID, KEY_ID)
    assert (first["rule"], first["is_canary"]) == ("default", None)
    assert "requests per minute" in first["message"]
    records = [queries.decision_made(one.parts.ledger, rid) is not None for rid in ids]
    assert records == [True] * EACH_MAX + [False] * 5


async def test_refused_call_has_its_page_with_the_words_it_was_refused_in(one: Edge) -> None:
    await one.post(body())
    rid = (await one.post(body())).headers["x-request-id"]
    (row,) = await handed_over(one)
    status, told = await ask(one.app, "GET", f"/admin/v1/requests/{rid}", b"", ADMIN)
    assert (status, told["status"], told["error_code"]) == (200, "refused", "rate_limit_exceeded")
    assert told["reason"] == row["message"] and told["candidates"]
    async with browser(one) as client:
        await sign_in(client)
        page = (await client.get(f"/console/calls/{rid}")).text
    assert "Rate limit reached" in page


async def test_page_outlives_the_record_of_the_decision(one: Edge) -> None:
    await one.post(body())
    one.parts.decision_recorder.add = lambda _: None  # type: ignore[method-assign]
    rid = (await one.post(body())).headers["x-request-id"]
    await handed_over(one)
    status, told = await ask(one.app, "GET", f"/admin/v1/requests/{rid}", b"", ADMIN)
    assert (status, told["rule"], told["candidates"]) == (200, "default", [])
    assert one.parts.decision_reader.call(rid, "org_other") is None


async def test_list_is_filtered_and_paged(one: Edge) -> None:
    await one.post(body())
    limited = [(await one.post(body())).headers["x-request-id"] for _ in range(3)]
    await one.publish_fleet(others="no node", blocked="no node")
    nowhere = (await one.post(body(service_tier="flex"))).headers["x-request-id"]
    await handed_over(one)
    assert [row["id"] for row in await listed(one, "?reason=limit")] == limited[::-1]
    assert [row["id"] for row in await listed(one, "?reason=capacity")] == [nowhere]
    assert [row["id"] for row in await listed(one, "?rule=flex")] == [nowhere]
    assert await listed(one, "?organization=org_other") == []
    assert len(await listed(one, f"?organization={ORGANIZATION_ID}")) == 4
    _, page = await ask(one.app, "GET", f"{LIST}?limit=3", b"", ADMIN)
    rest = await listed(one, f"?limit=3&after={page['after']}")
    assert [row["id"] for row in [*page["data"], *rest]] == [nowhere, *limited[::-1]]
    assert await listed(one, "?reason=tired") == []


async def test_call_that_nobody_took_after_it_was_admitted_is_listed(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        await one.publish_fleet(one.replica(state="STARTING"), others="no node")
        response = await one.post_and_outwait(body(stream=False, stream_options=None))
        assert response.status == 504
        (row,) = await handed_over(one)
    assert (row["reason"], row["id"]) == ("unserved", response.headers["x-request-id"])


async def test_money_that_does_not_cover_a_call_is_a_reason(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    limits = {"budget_usd": "0.000001"}
    async with edge(redis_server, redis, tmp_path, limits=limits) as one:
        assert (await one.post(body())).error_code == "insufficient_quota"
        (row,) = await handed_over(one)
    assert (row["reason"], row["error_code"]) == ("money", "insufficient_quota")


async def handed_over(one: Edge) -> list[dict[str, Any]]:
    """The list, once the ledger has every refusal, that of this minute too."""
    await one.parts.decision_recorder.close()
    await one.write_decisions()
    rows: list[dict[str, Any]] = await listed(one)
    return rows
