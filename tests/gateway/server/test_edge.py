"""What the edge does before any route is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from tests.gateway.edge import API_KEY, CHAT, Edge, edge
from tests.gateway.served import served
from tests.plain_http import NOBODY
from tests.redis_server import RedisServer

MOVING = {"date", "x-request-id", "openai-processing-ms"}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


@pytest.fixture
async def client(one: Edge) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        served(one.app) as url,
        httpx.AsyncClient(
            verify=NOBODY, base_url=url, headers={"authorization": f"Bearer {API_KEY}"}
        ) as made,
    ):
        yield made


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/models", 200),
        ("/v1/models/tale", 200),
        ("/v1/models/nothing", 404),
        ("/v1/key", 200),
        ("/admin/v1/keys", 401),
        ("/healthz", 200),
        ("/health", 200),
        ("/livez", 200),
        ("/", 307),
        ("/openapi.json", 200),
        ("/v1/nothing", 404),
        (CHAT, 405),
        ("/v1/quote", 405),
    ],
)
async def test_head_is_answered_as_get_is_and_without_a_body(
    client: httpx.AsyncClient, path: str, status: int
) -> None:
    got = await client.get(path)
    head = await client.head(path)
    assert (got.status_code, head.status_code, head.content) == (status, status, b"")
    same = set(head.headers) - MOVING
    assert same == set(got.headers) - MOVING
    assert {name: head.headers[name] for name in same} == {name: got.headers[name] for name in same}
    assert (await client.get("/healthz")).status_code == 200, "the connection is still good"


async def test_who_is_told_what_a_url_takes_is_told_of_head_too(client: httpx.AsyncClient) -> None:
    for path in ("/v1/models", "/console", "/openapi.json"):
        wrong = await client.put(path)
        assert wrong.status_code == 405
        assert {"GET", "HEAD"} <= set(wrong.headers["allow"].split(", ")), path
    wrong = await client.get(CHAT)
    assert wrong.headers["allow"] == "POST"
