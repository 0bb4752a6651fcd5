"""A call keeps the policy that it began with, whatever comes into force while it runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.policies.shipped import SHIPPED_VERSION
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import POOLS, Edge, Response, body, edge
from tests.gateway.policies.stored import HEAD
from tests.redis_server import RedisServer

CLOSED = HEAD + f"rules: []\ndefault: {{route: {{ignore: [{POOLS[0]}, {POOLS[1]}]}}}}\n"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def admin(one: Edge, path: str, sent: Any) -> Any:
    path = f"/admin/v1/policies{path}"
    status, told = await ask(one.app, "POST", path, json.dumps(sent).encode(), "admin")
    assert status in (200, 201), told
    return told


async def close(one: Edge) -> int:
    """A version that takes no pool comes into force."""
    version = (await admin(one, "", {"document": CLOSED, "comment": "closed"}))["version"]
    await admin(one, f"/{version}/activate", {"comment": "closed"})
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (403, "route_not_allowed")
    return int(version)


async def ran_under(one: Edge, answer: Response) -> tuple[int | None, str | None]:
    """The version and the rule that its decision is recorded with."""
    assert answer.status == 200, answer.body
    explained = await one.explained(answer.headers["x-request-id"])
    return explained.policy_revision, explained.rule


async def test_a_streaming_call_ends_under_the_version_that_it_began_with(one: Edge) -> None:
    go_on = asyncio.Event()
    rest = [fake.Send(fake.own_frame("end", 2, finish="stop")), fake.Send(fake.DONE)]
    acts = [fake.Send(fake.own_frame("begun ", 1)), fake.Wait(go_on), *rest]
    one.upstream.scripts.append(fake.Script(acts))
    begun = asyncio.Event()

    async def watch(response: Response) -> None:
        while b"begun" not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        begun.set()
        await asyncio.Event().wait()

    calling = asyncio.create_task(one.post(body(), leave=watch))
    async with asyncio.timeout(60):
        await begun.wait()
    await close(one)
    go_on.set()
    answer = await calling
    assert [c["choices"][0]["delta"].get("content") for c in answer.chunks[1:3]] == [
        "begun ",
        "end",
    ]
    assert await ran_under(one, answer) == (SHIPPED_VERSION, "default")
    await one.settled()


async def test_a_waiting_call_is_decided_anew_under_the_version_that_it_began_with(
    one: Edge,
) -> None:
    await one.publish_fleet(others="no node")
    calling = asyncio.create_task(one.post(body()))
    await one.waits()
    await close(one)
    await one.publish_fleet(one.replica("late"), others="no node")
    assert await ran_under(one, await calling) == (SHIPPED_VERSION, "default")
    await one.settled()


async def test_a_call_that_comes_after_goes_by_the_new_version(one: Edge) -> None:
    closed = await close(one)
    await admin(one, "/rollback", {"comment": "open again"})
    assert await ran_under(one, await one.post(body())) == (SHIPPED_VERSION, "default")
    text = HEAD + "rules: [{id: a, when: [], route: {sort: price}}]\ndefault: {route: {}}\n"
    version = (await admin(one, "", {"document": text, "comment": "a"}))["version"]
    await admin(one, f"/{version}/activate", {"comment": "a"})
    assert version > closed
    assert await ran_under(one, await one.post(body())) == (version, "a")
    await one.settled()
