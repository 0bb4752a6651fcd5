"""Pools with an adapter, as a gateway has them: charged as any other, and alone in their faults."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from billing.types import CallStatus, Usage
from tests.gateway.edge import FAR, body, edge
from tests.providers.conftest import ProvidersProcess, running_providers
from tests.providers.fakes import FakeProvider, fake_provider
from tests.redis_server import RedisServer

USED = Usage(input=9, cached_input=4, output=6, cache_write=3, reasoning=3)
"""Less than is held for the call: more would be our cost, and not charged."""
POOL = {
    "upstream_model": "anthropic/claude-haiku-4-5",
    "adapter": "litellm",
    "api_key_env": "SLUICE_PROVIDER_KEY_PLAIN",
}
WHOLE: dict[str, Any] = {"stream": False, "stream_options": None}


def listens_at(monkeypatch: pytest.MonkeyPatch, providers: ProvidersProcess) -> None:
    monkeypatch.setenv("SLUICE_PROVIDERS__PORT", str(urlsplit(providers.url).port))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_call_of_a_pool_with_an_adapter_is_charged_by_what_its_provider_says(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    providers: ProvidersProcess,
    stream: bool,
) -> None:
    listens_at(monkeypatch, providers)
    async with (
        fake_provider("anthropic", USED) as fake,
        edge(
            *(redis_server, redis, tmp_path),
            outer=fake.url,
            outer_pool=POOL | {"model": FAR},
        ) as one,
    ):
        response = await one.post(body(model=FAR, **{} if stream else WHOLE))
        assert response.status == 200, response.body
        (call,) = (await one.settled()).values()
    assert call.status is CallStatus.ANSWERED
    assert call.usage == replace(USED, gpu_ms=call.usage.gpu_ms)
    said = response.chunks[-1]["usage"] if stream else response.json["usage"]
    assert (said["prompt_tokens"], said["completion_tokens"]) == (USED.prompt, USED.completion)
    assert fake.bodies[0]["model"] == "claude-haiku-4-5"


async def test_field_that_the_provider_lacks_is_a_400_that_names_it(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    providers: ProvidersProcess,
) -> None:
    listens_at(monkeypatch, providers)
    async with (
        fake_provider("anthropic", USED) as fake,
        edge(
            *(redis_server, redis, tmp_path),
            outer=fake.url,
            outer_pool=POOL | {"model": FAR},
        ) as one,
    ):
        response = await one.post(body(model=FAR, seed=7))
        assert (response.status, response.json["error"]["param"]) == (400, "seed")
        (call,) = (await one.settled()).values()
    assert fake.bodies == [] and call.output == 0


async def test_adapters_that_hang_or_die_cost_their_own_calls_a_failover_and_no_other(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = {"external_first_token_timeout_s": 1.0}
    with running_providers() as providers:
        listens_at(monkeypatch, providers)
        async with (
            fake_provider("anthropic", USED) as fake,
            edge(
                *(redis_server, redis, tmp_path),
                outer=fake.url,
                outer_pool=POOL,
                gateway=impatient,
            ) as one,
        ):
            for number, outcome in ((signal.SIGSTOP, "cut"), (signal.SIGKILL, "unreachable")):
                os.kill(providers.process.pid, number)
                if number == signal.SIGKILL:
                    providers.process.wait(15)
                response = await one.post(body())
                assert (response.status, response.headers["x-sluice-pool"]) == (
                    200,
                    "tale-reserved",
                ), response.body
                *_, call = (await one.settled()).values()
                assert [a.outcome for a in call.attempts] == [outcome, "answered"]
            assert fake.bodies == []


class Proxy:
    """A proxy that nobody is to ask."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def was_asked(self) -> bool:
        try:
            self._listener.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    one = Proxy()
    yield one
    one.close()


async def test_process_asks_nobody_on_the_network_but_the_provider_of_a_call(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    proxy: Proxy,
) -> None:
    """All that is not on this machine would come by the proxy."""
    variables = {name: proxy.url for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")}
    with running_providers(**variables, NO_PROXY="127.0.0.1") as providers:
        listens_at(monkeypatch, providers)
        async with (
            fake_provider("anthropic", USED) as fake,
            edge(
                *(redis_server, redis, tmp_path),
                outer=fake.url,
                outer_pool=POOL | {"model": FAR},
            ) as one,
        ):
            assert (await one.post(body(model=FAR))).status == 200
            assert_asked_once(fake)
    assert not proxy.was_asked


def assert_asked_once(fake: FakeProvider) -> None:
    assert len(fake.paths) == 1
