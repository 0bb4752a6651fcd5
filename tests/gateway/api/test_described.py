"""`/openapi.json` tells of every route there is, those in raw ASGI too."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from starlette.routing import Route

from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def test_every_route_that_calls_a_model_is_described(one: Edge) -> None:
    described: dict[str, Any] = one.app.openapi()["paths"]
    raw = [r.path for r in one.app.router.routes if type(r) is Route and r.methods == {"POST"}]
    assert sorted(raw) == ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
    for path in raw:
        operation = described[path]["post"]
        body = operation["requestBody"]["content"]["application/json"]["schema"]
        assert set(body["required"]) < set(body["properties"])
        assert "4XX" in operation["responses"]


async def test_the_description_is_made_once_and_is_json(one: Edge) -> None:
    assert one.app.openapi() is one.app.openapi()
    found = json.loads(json.dumps(one.app.openapi()))
    assert "/v1/models" in found["paths"]
    assert "ApiError" in found["components"]["schemas"]
