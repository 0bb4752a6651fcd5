"""`sluice pools check`: one call, what came of it, and what to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.commands.sluice import Sluice, ready
from tests.gateway.edge import FAR, edge
from tests.gateway.served import served
from tests.redis_server import RedisServer

VARIABLE, KEY = "SLUICE_PROVIDER_KEY_FAR", "sk-provider-5Jq8wXz"
STORY = fake.stream(fake.plain_frame("Once"), fake.plain_frame("", "stop"), fake.DONE)


class Stage:
    def __init__(self, server: RedisServer, redis: Redis, folder: Path) -> None:
        self._server, self._redis, self._folder = server, redis, folder

    @asynccontextmanager
    async def __call__(
        self, base_url: str, environment: dict[str, str] | None = None
    ) -> AsyncIterator[Sluice]:
        pool = {"model": FAR, "api_key_env": VARIABLE, "upstream_model": "their-far"}
        known = {VARIABLE: KEY} if environment is None else environment
        options: dict[str, Any] = {"outer": base_url, "outer_pool": pool, "environment": known}
        async with (
            edge(self._server, self._redis, self._folder, **options) as one,
            served(one.app) as url,
        ):
            yield ready(self._folder / "ready", url)
            assert not await one.settled(), "no tenant is charged"


@pytest.fixture
def stage(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> Stage:
    return Stage(redis_server, redis, tmp_path)


async def test_pool_that_works_is_said_to_work(stage: Stage) -> None:
    async with fake.FakeUpstream(lambda _: STORY) as server, stage(server.address) as sluice:
        said = await sluice("pools", "check", "outside")
        assert said.startswith(f"outside: works: their-far at {server.address} answered in ")
        assert "it said no usage" in said
        found = await sluice.json("pools", "check", "outside")
        assert (found["ok"], found["outcome"], found["status"]) == (True, "answered", 200)
        sent = server.requests[-1]
        assert sent.body["model"] == "their-far" and sent.body["max_tokens"] <= 16
        assert sent.headers["authorization"] == f"Bearer {KEY}"


async def test_pool_that_is_refused_says_what_to_look_at(stage: Stage) -> None:
    refusal = fake.refusal(401, {"message": f"Incorrect API key provided: {KEY}"})
    async with fake.FakeUpstream(lambda _: refusal) as server, stage(server.address) as sluice:
        done = await sluice.run("pools", "check", "outside")
        assert done.exit_code == 1
        first, hint, said = done.stdout.splitlines()
        assert first.startswith("outside: does not work: misconfigured, status 401 (their-far at ")
        assert hint == "  The key is wrong or missing: see api_key_env."
        assert said == '  it said: {"error":{"message":"Incorrect API key provided: [key]"}}'
        done = await sluice.run("pools", "check", "outside", "--json")
        assert done.exit_code == 1 and '"status": 401' in done.stdout


async def test_server_that_is_not_there_and_a_key_that_is_not_set_are_told(stage: Stage) -> None:
    async with stage("http://127.0.0.1:9/v1") as sluice:
        done = await sluice.run("pools", "check", "outside")
        assert done.exit_code == 1
        assert "does not work: unreachable" in done.stdout and "Nobody answers" in done.stdout


async def test_pool_without_its_key_is_not_asked(stage: Stage) -> None:
    async with fake.FakeUpstream(lambda _: STORY) as server, stage(server.address, {}) as sluice:
        done = await sluice.run("pools", "check", "outside")
        assert (done.exit_code, server.requests) == (1, [])
        assert f"the variable {VARIABLE}, which holds its key, is not set" in done.stdout
        assert "no external pool" in await sluice.refused("pools", "check", "tale-reserved")
        assert "nobody" in await sluice.refused("pools", "check", "nobody")
        assert "outside" in await sluice("pools", "list")
