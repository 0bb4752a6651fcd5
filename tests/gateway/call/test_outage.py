"""While Redis is away: answers in bounded time, within what an organization has declared; and once
it is back every call is in the ledger, once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.db.engine import Store
from gateway.call import admission
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID
from tests.gateway.api.asgi import ask
from tests.gateway.edge import OUTPUT_PRICE, Edge, body, edge, story
from tests.gateway.outages import OUTAGES, declare, ledger, stopped, until, whole
from tests.redis_server import RedisServer

PROMPT_COST = 10 * 1_000
"""Of a call: its ten tokens of input, as the fake upstream counts them."""
DEN = 1_000_000_000
BOUNDED_BY_S = 30.0
"""Of waits of a second, on a machine that has other things to do."""
QUICK = {"limiter": {"timeout_ms": 1_000.0, "open_s": 1.0, "failures_max": 1}}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """Nobody starts another pool here: on a busy machine a call might decide to wait for it."""
    async with edge(redis_server, redis, tmp_path, gateway=QUICK) as running:
        await running.publish_fleet(running.replica(), others="nobody starts it")
        yield running


@pytest.fixture
async def booked(one: Edge, redis: Redis, tmp_path: Path) -> AsyncIterator[Store]:
    async with ledger(redis, tmp_path) as store:
        await takes_calls(one)
        yield store


async def takes_calls(one: Edge) -> None:
    """By Redis, not by itself."""

    async def admitted() -> bool:
        response = await one.post(body(max_tokens=1))
        return response.status == 200 and not one.parts.accounts.unsettled_count

    await until(admitted)


@pytest.mark.parametrize("outage", OUTAGES)
async def test_g34_local_calls_go_on_and_are_charged_once_when_redis_is_back(
    one: Edge, booked: Store, redis_server: RedisServer, outage: str
) -> None:
    await declare(one, "local", DEN)
    one.upstream.scripts.append(story(frames=30, pause_s=0.05))
    running = asyncio.create_task(one.post(body()))
    await asked(one)
    with OUTAGES[outage](redis_server):
        answers = [await one.post(body()) for _ in range(6)]
        assert [answer.status for answer in answers] == [200] * 6
        assert (await one.post(body(stream=False, stream_options=None))).status == 200
        one.upstream.scripts.append(story(frames=60, pause_s=0.05))
        still_running = asyncio.create_task(one.post(body(max_tokens=200)))
        await asyncio.sleep(0.1)
    assert (await running).events[-1] == "[DONE]"
    assert (await still_running).events[-1] == "[DONE]"
    await takes_calls(one)
    assert await whole(one, booked) > 8 * 8 * OUTPUT_PRICE // 1_000_000


async def test_slow_redis_is_asked_and_waited_for(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    """Silent for longer than one answer may take, again and again: as it is where it gets no
    processor. Only so many such silences in a row are an outage."""
    limiter = {"timeout_ms": 500.0, "failures_max": 60}
    async with edge(redis_server, redis, tmp_path, gateway={"limiter": limiter}) as one:
        await declare(one, "deny")
        for _ in range(3):
            with stopped(redis_server):
                asking = [asyncio.create_task(one.post(body())) for _ in range(8)]
                await asyncio.sleep(1.0)
            answers = await asyncio.gather(*asking)
            assert [answer.status for answer in answers] == [200] * 8
        assert not one.breaker_openings


async def test_hanging_redis_is_found_by_the_first_who_waits_for_it(
    one: Edge, redis_server: RedisServer
) -> None:
    await declare(one, "deny")
    with stopped(redis_server):
        assert (await one.post(body())).status == 503
        assert one.breaker_is_open
        refused = await one.post(body())
        assert (refused.status, refused.error_code) == (503, "server_is_overloaded")
        assert one.breaker_openings == 1


@pytest.mark.parametrize("outage", OUTAGES)
async def test_g34_denied_calls_cost_nothing_and_are_told_when_to_come_again(
    one: Edge, booked: Store, redis_server: RedisServer, outage: str
) -> None:
    await declare(one, "deny")
    before = len(one.upstream.requests)
    with OUTAGES[outage](redis_server):
        async with asyncio.timeout(BOUNDED_BY_S):
            refusals = await asyncio.gather(*(one.post(body()) for _ in range(40)))
        for refused in refusals:
            assert (refused.status, refused.error_code) == (503, "server_is_overloaded")
            assert int(refused.headers["retry-after"]) >= 1
    assert len(one.upstream.requests) == before
    await takes_calls(one)
    await whole(one, booked)


async def asked(one: Edge) -> None:
    before = len(one.upstream.requests)
    async with asyncio.timeout(30):
        while len(one.upstream.requests) <= before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_organization_without_a_budget_goes_on_unless_it_says_otherwise(
    one: Edge, redis_server: RedisServer
) -> None:
    with stopped(redis_server):
        assert (await one.post(body())).status == 200
        await declare(one, "deny")
        assert (await one.post(body())).status == 503


@pytest.mark.parametrize("scope", [f"key:{KEY_ID}", f"org:{ORGANIZATION_ID}"])
async def test_g25_budget_is_not_risked_unless_a_cap_is_declared(
    one: Edge, redis_server: RedisServer, scope: str
) -> None:
    raw = b'{"limit_usd": "5"}'
    status, _ = await ask(one.app, "PUT", f"/admin/v1/budgets/{scope}", raw, "admin")
    assert status == 200
    with stopped(redis_server):
        assert (await one.post(body())).status == 503
        await declare(one, "local", DEN)
        assert (await one.post(body())).status == 200


async def test_no_more_is_owed_than_the_cap_and_room_is_made_when_redis_knows(
    one: Edge, booked: Store, redis_server: RedisServer
) -> None:
    """Each call holds its prompt and 64 tokens, and costs 8 tokens of output."""
    call_cost = PROMPT_COST + 8 * OUTPUT_PRICE // 1_000_000
    cap = 400_000 + 3 * call_cost
    await declare(one, "local", cap)
    with stopped(redis_server):
        found = Counter([(await one.post(body())).status for _ in range(20)])
        assert found[200] >= 3 and found[503] >= 1
        assert found[200] * call_cost <= cap
        assert one.parts.accounts._outage.owed_nanousd(ORGANIZATION_ID) <= cap
    await takes_calls(one)
    await whole(one, booked)
    assert one.parts.accounts._outage.owed_nanousd(ORGANIZATION_ID) == 0


async def test_stream_is_stopped_where_the_cap_is(one: Edge, redis_server: RedisServer) -> None:
    leases = one.parts.accounts._leases
    leases.settings = replace(leases.settings, outage_wait_s=0.2)
    slice_cost = 256 * OUTPUT_PRICE // 1_000_000
    await declare(one, "local", 2 * slice_cost + 200_000)
    one.upstream.behaviour = lambda _: story(frames=500, tokens_a_frame=2)
    with stopped(redis_server):
        asking = asyncio.create_task(one.post(body(max_tokens=1_000)))
        answered = await asyncio.wait_for(asking, BOUNDED_BY_S)
    *_, last, _ = answered.chunks
    assert last["choices"][0]["finish_reason"] == "length"


async def test_rates_are_shared_by_the_gateways_that_live(
    one: Edge, redis: Redis, redis_server: RedisServer
) -> None:
    """Two of them: four tenths of twenty requests each."""
    raw = b'{"requests_per_minute": 20}'
    await ask(one.app, "PUT", f"/admin/v1/limits/org:{ORGANIZATION_ID}", raw, "admin")
    await redis.zadd("sluice:gateways", {"gw-other": round(time.time() * 1000) + 600_000})

    async def heard() -> bool:
        return one.parts.accounts._outage.gateways == 2

    await until(heard)
    one.watch.stop()  # no bucket leaks meanwhile
    with stopped(redis_server):
        found = Counter([(await one.post(body())).status for _ in range(20)])
    assert found == {200: 8, 429: 12}


async def test_calls_at_once_are_shared_too(one: Edge, redis_server: RedisServer) -> None:
    raw = b'{"concurrency": 5}'
    await ask(one.app, "PUT", f"/admin/v1/limits/key:{KEY_ID}", raw, "admin")
    one.upstream.behaviour = lambda _: story(frames=20, pause_s=0.02)
    with stopped(redis_server):
        answers = await asyncio.gather(*(one.post(body()) for _ in range(12)))
    assert Counter(answer.status for answer in answers) == {200: 4, 429: 8}


async def test_long_outage_fills_the_spool_and_not_the_memory(
    one: Edge, booked: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "PUT_OFF_MAX", 5)
    await declare(one, "local", DEN)
    with stopped(redis_server):
        for _ in range(15):
            assert (await one.post(body())).status == 200
        assert one.parts.accounts.unsettled_count <= 5
        assert one.parts.accounts.left_to_spool >= 10
    await takes_calls(one)
    await whole(one, booked)
    assert one.parts.accounts.left_to_spool == 0
