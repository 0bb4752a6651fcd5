"""Values that no database, script or log should meet: each parameter of each route is sent all of
them, and the answer is never a mistake of ours.

The short run sends each parameter every value once in three; the long run sends all.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from tests.gateway.edge import API_KEY, Edge, edge
from tests.openai_api.held import held_async
from tests.redis_server import RedisServer

NUL = "a%00b"
HOSTILE = {
    "NUL": NUL,
    "half a surrogate pair": "%ED%A0%80",
    "no UTF-8": "%ff%fe",
    "very long": "x" * 5000,
    "a line more": "a%0d%0ax-injected:%201",
    "beyond 64 bits": "9" * 30,
    "more digits than Python reads": "9" * 5000,
    "a sign": "-1",
    "a fraction": "1e400",
    "up the tree": "..%2f..%2fetc",
    "SQL": "'%20OR%20'1'='1",
    "nothing": "",
}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


def targets(described: dict[str, Any], value: str) -> Iterator[tuple[str, str]]:
    """Method and URL for every parameter of every route, one parameter hostile at a time."""
    for path, operations in described.items():
        for method, operation in operations.items():
            parameters = operation.get("parameters", [])
            named = {p["name"] for p in parameters if p["in"] == "path"}
            if named:
                yield method, path.replace("{", "").replace("}", "").replace(named.pop(), value)
            for parameter in parameters:
                if parameter["in"] == "query":
                    plain = path.replace("{", "").replace("}", "")
                    query = f"{parameter['name']}={value}"
                    yield method, f"{plain}?{query}"
                    yield method, f"{plain}?{query}&{query}"


SHARE = 3


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_parameter_is_refused_or_harmless(one: Edge, name: str) -> None:
    """Which third of the parameters a value meets follows from its place in the list, so that each
    parameter meets four of the twelve."""
    urls = list(targets(one.app.openapi()["paths"], HOSTILE[name]))
    await send(one, HOSTILE[name], urls[list(HOSTILE).index(name) % SHARE :: SHARE])


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
async def test_every_parameter_meets_every_hostile_value(one: Edge, name: str) -> None:
    await send(one, HOSTILE[name], list(targets(one.app.openapi()["paths"], HOSTILE[name])))


async def send(one: Edge, value: str, urls: list[tuple[str, str]]) -> None:
    assert len(urls) > 60
    transport = httpx.ASGITransport(app=one.app)
    hooks: Any = {"response": [held_async]}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://gateway.test", event_hooks=hooks
    ) as client:
        for method, url in urls:
            key = "admin" if url.startswith("/admin") else API_KEY
            sent = {} if method == "get" else {"json": {}}
            headers = {"authorization": f"Bearer {key}"}
            response = await client.request(method, url, headers=headers, **sent)
            assert response.status_code < 500, (method, url[:80], response.text[:300])
            assert value != NUL or response.status_code >= 400, (method, url)
            assert "x-injected" not in response.headers
