"""Law 10 at the door: whatever time a client says it is, its call goes as any other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer

CLOCKS = {
    "long ago": "Thu, 01 Jan 1970 00:00:00 GMT",
    "far ahead": "Fri, 31 Dec 9999 23:59:59 GMT",
    "no time": "yesterday",
}
HOUR_US = 3_600_000_000
NAMES = ("date", "x-request-start", "x-timestamp", "if-modified-since", "expires", "age")


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    limits = {"requests_per_minute": 60, "request_burst": len(CLOCKS) + 1}
    async with edge(redis_server, redis, tmp_path, limits=limits) as running:
        yield running


async def test_no_time_that_a_client_says_moves_a_deadline_a_rate_or_a_charge(one: Edge) -> None:
    plain = await one.post(body(), headers={"x-sluice-deadline-ms": "60000"})
    for clock in CLOCKS.values():
        named = dict.fromkeys(NAMES, clock) | {"x-sluice-deadline-ms": "60000"}
        answer = await one.post(body(), headers=named)
        assert (answer.status, answer.chunks[-1]["usage"]) == (200, plain.chunks[-1]["usage"])
    refused = await one.post(body(), headers=dict.fromkeys(NAMES, CLOCKS["long ago"]))
    assert (refused.status, refused.error_code) == (429, "rate_limit_exceeded")
    calls = (await one.settled()).values()
    assert len(calls) == len(CLOCKS) + 1
    now_us = round(one.watch() * 1e6)
    assert all(now_us - HOUR_US < call.admitted_us <= now_us for call in calls)
    assert len({call.amount_nanousd for call in calls}) == 1


@pytest.mark.parametrize("wrong", ["Thu, 01 Jan 2099 00:00:00 GMT", "4070908800", "-5", "1e3"])
async def test_a_deadline_is_a_span_and_never_an_instant(one: Edge, wrong: str) -> None:
    """A count of seconds since 1970 is longer than any span that may be asked for."""
    answer = await one.post(body(), headers={"x-sluice-deadline-ms": wrong})
    assert answer.status == 400 and "deadline" in answer.json["error"]["message"]
