"""Every route that calls a model, whole and streamed, is metered in the ledger once (G18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import CallStatus
from gateway.server.routes import call_routes
from gateway.upstream import fake
from tests.gateway.edge import CHAT, COMPLETIONS, EMBEDDINGS, Edge, Response, edge, story
from tests.redis_server import RedisServer

SAID = [{"role": "user", "content": "Tell a story."}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "tale", "messages": SAID, "max_tokens": 64},
    COMPLETIONS: {"model": "tale", "prompt": "Once", "max_tokens": 64},
    "/v1/responses": {"model": "tale", "input": "Tell.", "max_output_tokens": 64},
    "/v1/messages": {"model": "tale", "messages": SAID, "max_tokens": 64},
    EMBEDDINGS: {"model": "vectors", "input": "Once"},
}
OUTSIDE = {
    *("/v1/rerank", "/v2/rerank", "/v1/moderations"),
    *("/v1/audio/speech", "/v1/images/generations"),
}
"""At servers outside alone: `tests/gateway/test_rerank.py`, `test_speech.py`, `images`."""
STREAMED = [path for path in BODIES if path != EMBEDDINGS]
CLEAN_ENDS = (b"[DONE]", b"response.completed", b"response.incomplete", b"message_stop")


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


def vectors() -> fake.Script:
    return fake.stream(fake.own_vectors({0: [1.0, 2.0]}, prompt=3), fake.DONE)


async def test_no_route_is_forgotten_here(one: Edge) -> None:
    assert call_routes(one.parts.catalog).keys() == BODIES.keys() | OUTSIDE


@pytest.mark.parametrize(
    ("path", "stream"), [(path, s) for path in BODIES for s in (False, True)][:-1]
)
async def test_g18_every_route_is_metered_once_whole_and_streamed(
    one: Edge, path: str, stream: bool
) -> None:
    if path == EMBEDDINGS:
        one.upstream.scripts.append(vectors())
    wanted = BODIES[path] | ({"stream": True} if stream else {})
    response = await one.post(wanted, path=path)
    assert response.status == 200
    (call,) = (await one.settled()).values()
    expected = (3, 0) if path == EMBEDDINGS else (10, 8)
    assert (call.status, call.input, call.output) == (CallStatus.ANSWERED, *expected)
    assert call.amount_nanousd == 1000 * call.input + 5000 * call.output
    assert call.rid == response.headers["x-request-id"]


@pytest.mark.parametrize("path", STREAMED)
async def test_cut_stream_never_ends_cleanly_and_is_metered_as_far_as_it_came(
    one: Edge, path: str
) -> None:
    """Law 9, on every route."""
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Reset()]))
    response = await one.post(BODIES[path] | {"stream": True}, path=path)
    assert response.status == 200
    assert not any(end in response.body for end in CLEAN_ENDS)
    assert b'"error"' in response.body.rpartition(b"data: ")[2]
    (call,) = (await one.settled()).values()
    assert (call.status, call.output) == (CallStatus.FAILED, 3)


PIECE_OF_TEXT = {
    CHAT: b"word1",
    COMPLETIONS: b"word1",
    "/v1/responses": b"output_text.delta",
    "/v1/messages": b"content_block_delta",
}


@pytest.mark.parametrize("path", STREAMED)
async def test_client_that_leaves_a_stream_is_charged_what_came(one: Edge, path: str) -> None:
    one.upstream.scripts.append(story(frames=40, pause_s=0.05))

    async def after_some(response: Response) -> None:
        while PIECE_OF_TEXT[path] not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await one.post(BODIES[path] | {"stream": True}, path=path, leave=after_some)
    (call,) = (await one.settled()).values()
    assert call.status == CallStatus.CANCELLED
    assert 0 < call.output < 80
