"""`/metrics` of a running gateway: what it has done, for whoever may look."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from tests.gateway.edge import API_KEY, Edge, body, edge
from tests.gateway.served import served
from tests.plain_http import NOBODY
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def scraped(one: Edge, key: str | None = "admin") -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with served(one.app) as url, httpx.AsyncClient(verify=NOBODY) as client:
        return await client.get(f"{url}/metrics", headers=headers)


async def test_scrape_tells_of_calls_that_ended_and_of_those_refused(one: Edge) -> None:
    for sent in (body(), body(stream=False, stream_options=None), body(model="nothing")):
        await one.post(sent)
    await one.post(body(), headers={"authorization": "Bearer wrong"})
    told = await scraped(one)
    assert told.status_code == 200
    assert told.headers["content-type"].startswith("text/plain; version=")
    lines = told.text.splitlines()
    labels = 'model="tale",pool="tale-reserved",status="answered",tier="default"'
    assert f"sluice_calls_total{{{labels}}} 2.0" in lines
    assert 'sluice_errors_total{code="model_not_found",status="404"} 1.0' in lines
    assert 'sluice_errors_total{code="invalid_api_key",status="401"} 1.0' in lines
    assert 'sluice_time_to_first_token_seconds_count{model="tale"} 2.0' in lines
    assert 'sluice_replicas{pool="tale-reserved",state="WARM"} 1.0' in lines
    assert "sluice_open_calls 0.0" in lines
    assert "sluice_limiter_away 0.0" in lines
    for secret in (API_KEY, "org_", "key_", "req_", "Tell a story"):
        assert secret not in told.text


@pytest.mark.parametrize("key", [None, "wrong", API_KEY])
async def test_scrape_is_for_the_admin_key(one: Edge, key: str | None) -> None:
    assert (await scraped(one, key)).status_code == 401


async def test_scrape_is_for_everybody_where_the_settings_say_so(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path, gateway={"metrics_open": True}) as one:
        assert (await scraped(one, None)).status_code == 200
