"""Endpoints, adapters, whole and streamed, callers that stay and leave: what is booked is what the
server reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from billing.types import CallStatus, Usage
from tests.gateway.edge import CHAT, COMPLETIONS, EMBEDDINGS, FAR, Edge, Response, edge
from tests.gateway.providers.fake_triton import FakeTriton, fake_triton
from tests.providers.conftest import ProvidersProcess
from tests.providers.fakes import FakeProvider, fake_provider
from tests.providers.test_adapters import KINDS
from tests.providers.test_behind_a_gateway import listens_at
from tests.redis_server import RedisServer

LEFT_S = 15.0
IMPATIENT = {"slow_reader_timeout_s": 2.0}
"""Within half of it a whole answer whose caller left is given up, which else is seen through to its
price. Each adapter waits so long with each endpoint."""
SAID = [{"role": "user", "content": "Tell."}]
BODIES: Mapping[str, dict[str, Any]] = {
    CHAT: {"model": FAR, "messages": SAID, "max_tokens": 50},
    "/v1/responses": {"model": FAR, "input": "Tell.", "max_output_tokens": 50, "store": False},
    "/v1/messages": {"model": FAR, "messages": SAID, "max_tokens": 50},
    COMPLETIONS: {"model": FAR, "prompt": "Tell.", "max_tokens": 50},
    EMBEDDINGS: {"model": "vectors", "input": ["one", "two"]},
}
CONVERSATIONS = (CHAT, "/v1/responses", "/v1/messages")
KEYS = {"PLAIN": "SLUICE_PROVIDER_KEY_PLAIN"}


@dataclass(frozen=True)
class Adapter:
    """A way to a server, with what it reports of each call."""

    name: str
    server: str
    used: Usage
    pool: dict[str, Any]
    endpoints: tuple[str, ...] = CONVERSATIONS
    reports_of_vectors: Usage = field(default_factory=lambda: Usage(input=8))

    def fake(self, path: str) -> AbstractAsyncContextManager[FakeProvider | FakeTriton]:
        if self.server == "triton":
            return fake_triton(counts=True)
        if path == EMBEDDINGS:
            return fake_provider(self.server, Usage(input=8))
        return fake_provider("text" if path == COMPLETIONS else self.server, self.used)


def _within_its_hold(used: Usage) -> Usage:
    """Less than is held for so short a prompt: more would be our cost, and not charged."""
    return replace(used, input=2, cached_input=min(1, used.cached_input), cache_write=0)


def _by_litellm(name: str) -> Adapter:
    kind = next(kind for kind in KINDS if kind.name == name)
    key = f"SLUICE_PROVIDER_KEY_{kind.key}"
    pool = {"adapter": "litellm", "upstream_model": kind.model, "api_key_env": key}
    return Adapter(f"litellm {name}", name, _within_its_hold(kind.used), pool)


TEXT_POOL = {
    "adapter": "litellm",
    "upstream_model": "text-completion-openai/instruct",
    "api_key_env": "SLUICE_PROVIDER_KEY_PLAIN",
}
EMBED_POOL = {
    "adapter": "litellm",
    "upstream_model": "cohere/embed-v4.0",
    "api_key_env": "SLUICE_PROVIDER_KEY_PLAIN",
}
PLAIN = Usage(input=2, cached_input=1, output=6, reasoning=3)
ADAPTERS = (
    Adapter("openai", "azure", PLAIN, {}, (*CONVERSATIONS, COMPLETIONS, EMBEDDINGS)),
    Adapter(
        "triton",
        "triton",
        Usage(input=7, output=3),
        {"adapter": "triton", "upstream_model": "story"},
        (*CONVERSATIONS, COMPLETIONS),
    ),
    *(_by_litellm(kind.name) for kind in KINDS),
    Adapter("litellm text", "text", Usage(input=2, output=4), TEXT_POOL, (COMPLETIONS,)),
    Adapter("litellm vectors", "cohere", Usage(input=2), EMBED_POOL, (EMBEDDINGS,)),
)


@asynccontextmanager
async def before(
    adapter: Adapter, path: str, server: RedisServer, redis: Redis, data: Path
) -> AsyncIterator[tuple[Edge, FakeProvider | FakeTriton]]:
    pool = adapter.pool | {"model": BODIES[path]["model"]}
    async with (
        adapter.fake(path) as fake,
        edge(server, redis, data, outer=fake.url, outer_pool=pool, gateway=IMPATIENT) as one,
    ):
        yield one, fake


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
async def test_booked_is_what_the_server_reports(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    providers: ProvidersProcess,
    adapter: Adapter,
) -> None:
    listens_at(monkeypatch, providers)
    conversations = [path for path in adapter.endpoints if path in CONVERSATIONS]
    for paths in (conversations, *([p] for p in adapter.endpoints if p not in CONVERSATIONS)):
        if not paths:
            continue
        data = tmp_path / paths[0].replace("/", "-")
        data.mkdir()
        async with before(adapter, paths[0], redis_server, redis, data) as (one, fake):
            for path in paths:
                for stream in (False, True) if path != EMBEDDINGS else (False,):
                    await _stays(one, fake, adapter, path, stream)
                    await _leaves(one, fake, adapter, path, stream)


async def _stays(
    one: Edge, fake: FakeProvider | FakeTriton, adapter: Adapter, path: str, stream: bool
) -> None:
    where = f"{adapter.name} {path} {'streamed' if stream else 'whole'}"
    fake.holds = False
    response = await one.post(_asked(path, stream), path=path)
    assert response.status == 200, (where, response.body)
    *_, call = (await one.settled()).values()
    assert call.status is CallStatus.ANSWERED, where
    expected = Usage(input=8) if path == EMBEDDINGS else adapter.used
    used = call.usage
    assert used == replace(expected, gpu_ms=used.gpu_ms), where
    assert [attempt.outcome for attempt in call.attempts] == ["answered"], where


async def _leaves(
    one: Edge, fake: FakeProvider | FakeTriton, adapter: Adapter, path: str, stream: bool
) -> None:
    where = f"{adapter.name} {path} {'streamed' if stream else 'whole'}, who leaves"
    fake.holds, fake.begun, fake.left = True, asyncio.Event(), asyncio.Event()

    async def leave(response: Response) -> None:
        await asyncio.wait_for(fake.begun.wait(), LEFT_S)
        while stream and b"Once" not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    await one.post(_asked(path, stream), path=path, leave=leave)
    await asyncio.wait_for(fake.left.wait(), LEFT_S)
    *_, call = (await one.settled()).values()
    assert call.status is CallStatus.CANCELLED, where
    assert call.usage.completion == stream, where  # the one word that came


def _asked(path: str, stream: bool) -> dict[str, Any]:
    return BODIES[path] if path == EMBEDDINGS else BODIES[path] | {"stream": stream}
