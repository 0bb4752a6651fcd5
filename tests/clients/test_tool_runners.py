"""Anthropic's tool runners, which try to have the conversation kept, and send all of it once they
are told that nobody keeps it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import anthropic
import httpx
import pytest
from anthropic import beta_async_tool
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.clients.marks import ROOT
from tests.clients.scripted import Calls, Model, Says
from tests.gateway.edge import API_KEY, edge
from tests.gateway.served import served
from tests.redis_server import RedisServer

LAST = "It is raining."
RUNS_WITHIN_S = 120.0
ASKED = [[400, True], [200, False], [200, False], [200, False]]
"""Each status, and whether a thread was asked for."""


@pytest.fixture
def model() -> Model:
    towns = [Calls([("look", {"town": town})]) for town in ("Ulm", "Bonn")]
    return Model([*towns, Says(LAST)])


@pytest.fixture
async def base_url(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, model: Model
) -> AsyncIterator[str]:
    async with fake.FakeUpstream(model) as upstream:
        outer = f"{upstream.address}/v1"
        async with (
            edge(redis_server, redis, tmp_path, outer=outer) as running,
            served(running.app) as url,
        ):
            yield url


def assert_looked(model: Model) -> None:
    assert model.results() == ["Rain in Ulm.", "Rain in Bonn."]


@beta_async_tool
async def look(town: str) -> str:
    """Looks at the sky of a town."""
    return f"Rain in {town}."


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.client(
    "anthropic", "Its tool runner completes its loop, whole and streamed, without a stored thread."
)
async def test_tool_runner_of_python_completes_its_loop(
    base_url: str, model: Model, stream: bool
) -> None:
    asked = []

    async def note(response: httpx.Response) -> None:
        asked.append([response.status_code, "thread" in json.loads(response.request.content)])

    http = anthropic.DefaultAsyncHttpxClient(event_hooks={"response": [note]})
    async with anthropic.AsyncAnthropic(
        api_key=API_KEY, base_url=base_url, max_retries=0, http_client=http
    ) as client:
        runner = client.beta.messages.tool_runner(
            model="tale",
            max_tokens=64,
            stream=stream,
            tools=[look],
            messages=[{"role": "user", "content": "Is it raining?"}],
        )
        async with asyncio.timeout(RUNS_WITHIN_S):
            message = await runner.until_done()
    assert message.content[0].text == LAST
    assert asked == ASKED
    assert_looked(model)


@pytest.mark.parametrize("stream", ["", "1"])
@pytest.mark.client(
    "@anthropic-ai/sdk",
    "Its tool runner completes its loop, whole and streamed, without a stored thread.",
)
async def test_tool_runner_of_node_completes_its_loop(
    base_url: str, model: Model, stream: str
) -> None:
    node = shutil.which("node")
    assert node, "no Node: these tests need Node 20 or later, in the path"
    process = await asyncio.create_subprocess_exec(
        node,
        "tool_runner.mjs",
        cwd=ROOT / "tests" / "clients" / "node",
        env=os.environ
        | {"SLUICE_BASE_URL": base_url, "SLUICE_KEY": API_KEY, "SLUICE_STREAM": stream},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(RUNS_WITHIN_S):
            output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, errors.decode()
    assert json.loads(output) == {"text": LAST, "asked": ASKED}
    assert_looked(model)
