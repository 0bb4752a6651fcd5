"""What a server outside says that it serves, asked by the admin API as its pool is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.providers.served import OutsideModel, read_models
from gateway.upstream.answer import Cut
from tests.gateway.edge import FAR, edge
from tests.gateway.served import served
from tests.redis_server import RedisServer

KEY = {"SLUICE_PROVIDER_KEY_ONE": "sk-of-the-server"}
POOL = {"model": FAR, "api_key_env": "SLUICE_PROVIDER_KEY_ONE"}
ADMIN = {"authorization": "Bearer admin"}


@asynccontextmanager
async def lister(answer: Any, status: int = 200) -> AsyncIterator[tuple[str, list[str]]]:
    """A server with a list of models; its URL, and the keys that it was shown."""
    keys: list[str] = []

    async def models(request: web.Request) -> web.Response:
        keys.append(request.headers.get("authorization", ""))
        return web.json_response(answer, status=status)

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1", keys
    finally:
        await runner.cleanup()


async def test_models_of_a_server_are_listed_with_their_sizes_and_its_refusal_without_its_key(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    listed = {"data": [{"id": "b", "max_model_len": 4096}, {"id": "a", "context_length": 8192}]}
    refused = {"error": {"message": f"not {KEY['SLUICE_PROVIDER_KEY_ONE']}"}}
    for answer, status in ((listed, 200), (refused, 401), ({"data": "none"}, 200)):
        folder = tmp_path / f"{status}{len(str(answer))}"
        folder.mkdir()
        async with (
            lister(answer, status) as (url, keys),
            edge(
                *(redis_server, redis, folder), outer=url, outer_pool=POOL, environment=KEY
            ) as one,
            served(one.app) as base_url,
            httpx.AsyncClient(base_url=base_url, headers=ADMIN, timeout=30) as client,
        ):
            said = await client.get("/admin/v1/pools/outside/models")
            own = await client.get("/admin/v1/pools/tale-reserved/models")
        assert keys == ["Bearer sk-of-the-server"]
        assert own.status_code == 400
        if answer is listed:
            assert said.json()["data"] == [
                {"id": "a", "context_tokens": 8192},
                {"id": "b", "context_tokens": 4096},
            ]
        else:
            assert said.status_code == 400 and "lists no models" in said.text
            assert "sk-of-the-server" not in said.text


def test_bare_list_is_read_as_well_and_a_name_stands_once() -> None:
    body = json.dumps([{"id": "m"}, {"id": "m", "max_model_len": 5}]).encode()
    assert read_models(body) == [OutsideModel("m", 5)]


JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "id", "max_model_len"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JUNK)
def test_whatever_a_server_says_is_a_list_or_a_cut(answer: Any) -> None:
    try:
        rows = read_models(json.dumps(answer).encode())
    except Cut:
        return
    assert [row.id for row in rows] == sorted({row.id for row in rows})


def test_nonsense_is_a_cut() -> None:
    with pytest.raises(Cut):
        read_models(b"<html>")
