"""The requests of the Open Responses compliance suite, through the whole gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.edge import Edge, edge
from tests.gateway.wire.responses.calls import named
from tests.open_responses.asked import REQUESTS
from tests.open_responses.shapes import assert_response, assert_stream
from tests.redis_server import RedisServer

PATH = "/v1/responses"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


def called() -> fake.Script:
    """A call in two pieces, as a worker tells it."""
    first: dict[str, Any] = {"index": 0, "id": "call_1", "type": "function"}
    begun = first | {"function": {"name": "get_weather", "arguments": '{"location": '}}
    pieces = [begun, {"index": 0, "function": {"arguments": '"Ulm"}'}}]
    frames = [
        fake.own_event(
            [{"index": 0, "delta": {"tool_calls": [piece]}, "finish_reason": finish}], 10, 0, output
        )
        for piece, finish, output in zip(pieces, (None, "tool_calls"), (4, 8), strict=True)
    ]
    return fake.Script([*map(fake.Send, frames), fake.Send(fake.DONE)])


@pytest.mark.parametrize("name", REQUESTS)
async def test_what_the_suite_asks_is_answered_in_its_shapes(one: Edge, name: str) -> None:
    asked = REQUESTS[name]
    if asked.output == "function_call":
        one.upstream.scripts.append(called())
    response = await one.post(asked.body("tale"), path=PATH)
    if asked.sees:
        assert (response.status, response.json["error"]["param"]) == (400, "input[0].content[1]")
        return
    found = assert_stream(named(response.body)) if asked.stream else response.json
    assert_response(found)
    assert found["status"] == "completed"
    assert asked.output in [item["type"] for item in found["output"]]
    if asked.stream and asked.tools:
        types = [event["type"] for event in named(response.body)]
        assert "response.function_call_arguments.delta" in types
        assert "response.function_call_arguments.done" in types
    await one.settled()
