"""Anthropic's own client to models of Gemini and of OpenAI: messages, whole and streamed, a tool,
usage and errors, as the client has them from Anthropic itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from billing.types import CallStatus, Usage
from tests.gateway.edge import API_KEY, FAR, Edge, edge
from tests.gateway.served import served
from tests.providers.conftest import ProvidersProcess
from tests.providers.fakes import FakeProvider, fake_provider
from tests.providers.test_behind_a_gateway import listens_at
from tests.redis_server import RedisServer

USED = Usage(input=2, cached_input=1, output=6, reasoning=3)
"""Less than is held for so short a prompt."""
SERVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemini": (
        "gemini",
        {
            "adapter": "litellm",
            "upstream_model": "gemini/gemini-2.5-flash",
            "api_key_env": "SLUICE_PROVIDER_KEY_PLAIN",
        },
    ),
    "openai": ("azure", {"upstream_model": "gpt-4o"}),
}
"""Which server answers, and its pool."""
TOOL: Any = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASKED: Any = {
    "model": FAR,
    "max_tokens": 50,
    "system": "You are kind.",
    "messages": [{"role": "user", "content": "Tell."}],
}
SAID_AGAIN = {"type", "id", "name", "input"}
STORY = "Once upon a time."


@asynccontextmanager
async def asking(
    server: str, redis_server: RedisServer, redis: Redis, data: Path
) -> AsyncIterator[tuple[anthropic.AsyncAnthropic, FakeProvider, Edge]]:
    kind, pool = SERVERS[server]
    async with (
        fake_provider(kind, USED) as fake,
        edge(redis_server, redis, data, outer=fake.url, outer_pool=pool | {"model": FAR}) as one,
        served(one.app) as url,
        anthropic.AsyncAnthropic(api_key=API_KEY, base_url=url, max_retries=0) as client,
    ):
        yield client, fake, one


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.client(
    "anthropic", "It talks to models of Gemini and of OpenAI: whole, streamed, tools and errors."
)
async def test_anthropics_client_talks_to_models_of_others(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    providers: ProvidersProcess,
    server: str,
) -> None:
    listens_at(monkeypatch, providers)
    async with asking(server, redis_server, redis, tmp_path) as (client, fake, one):
        whole = await client.messages.create(**ASKED)
        assert_told(whole)
        async with client.messages.stream(**ASKED) as stream:
            pieces = [text async for text in stream.text_stream]
            streamed = await stream.get_final_message()
        assert_told(streamed)
        assert pieces == list(fake.words)
        fake.calls_tool = True
        async with client.messages.stream(**ASKED, tools=[TOOL]) as stream:
            used = await stream.get_final_message()
        (block,) = [block for block in used.content if block.type == "tool_use"]
        assert (used.stop_reason, block.name, block.input) == (
            "tool_use",
            "weather",
            {"city": "Oslo"},
        )
        fake.calls_tool = False
        result: Any = {"type": "tool_result", "tool_use_id": block.id, "content": "Rain in Oslo."}
        turns = [
            *ASKED["messages"],
            {"role": "assistant", "content": [block.model_dump(include=SAID_AGAIN)]},
            {"role": "user", "content": [result]},
        ]
        told = await client.messages.create(**ASKED | {"messages": turns}, tools=[TOOL])
        assert_told(told)
        assert "Rain in Oslo." in str(fake.bodies[-1])
        fake.status = 400
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.create(**ASKED)
        calls = list((await one.settled()).values())
    *answered, refused = calls
    assert [call.status for call in answered] == [CallStatus.ANSWERED] * 4
    for call in answered:
        assert call.usage == replace(USED, gpu_ms=call.usage.gpu_ms)
    assert refused.usage.output == 0


def assert_told(message: Any) -> None:
    assert "".join(block.text for block in message.content if block.type == "text") == STORY
    assert message.stop_reason == "end_turn"
    usage = message.usage
    told = (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens)
    assert told == (USED.input, USED.cached_input, USED.completion)
