"""One key and two gateway processes: who runs is killed with -9, and nobody runs again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from billing.credits.lines import REVISION_KEY
from billing.limits.holds import Holds
from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.upstream import fake
from tests.billing.limits.harness import open_shard
from tests.empty_database import put_empty_database
from tests.gateway import edge
from tests.gateway.edge import API_KEY, CHAT, SHARD, body, story
from tests.gateway.one_process import (
    READY_WITHIN_S,
    ended,
    publish_fleet,
    started,
    takes_calls,
)
from tests.nursery import Child
from tests.plain_http import NOBODY
from tests.redis_server import RedisServer

KEY = {"idempotency-key": "order 17", "authorization": f"Bearer {API_KEY}"}


class Gateways:
    """Two processes with one data folder, one Redis and one worker, which this process plays."""

    def __init__(
        self,
        upstream: fake.FakeUpstream,
        running: list[Child],
        start: Callable[[int], Awaitable[Child]],
        ports: list[int],
    ) -> None:
        self.upstream = upstream
        self.running = running
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        self._start = start
        self._ports = ports

    async def kill9(self, number: int) -> None:
        self.running[number].send_signal(signal.SIGKILL)
        await self.running[number].wait()

    async def stop(self, number: int) -> None:
        """As its supervisor does: it may finish what it has, for as long as it drains."""
        self.running[number].send_signal(signal.SIGTERM)
        async with asyncio.timeout(READY_WITHIN_S):
            await self.running[number].wait()

    async def restart(self, number: int) -> None:
        """As its supervisor would: it finds the spool of its former life and settles it."""
        self.running[number] = await self._start(self._ports[number])

    async def stream(self, client: httpx.AsyncClient, number: int) -> AsyncIterator[str]:
        """Lines of the call's answer from that gateway, as they come."""
        async with client.stream(
            "POST", self.urls[number] + CHAT, headers=KEY, json=body()
        ) as response:
            async for line in response.aiter_lines():
                yield line

    async def whole(self, client: httpx.AsyncClient, number: int) -> list[str]:
        lines = [line async for line in self.stream(client, number)]
        return [line.removeprefix("data: ") for line in lines if line]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def two(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Gateways]:
    put_empty_database(tmp_path / "sluice.db")
    async with fake.FakeUpstream(lambda _: story(frames=8, pause_s=0.1)) as upstream:
        await redis.set("sluice:prices", edge._prices(round(edge.time() * 1e6)))
        await redis.set(REVISION_KEY, 1)
        await open_shard(Holds(redis), shard=SHARD)
        await publish_fleet(redis, upstream.address)
        ports = [_free_port(), _free_port()]
        start = partial(started, tmp_path, redis_server)
        async with _processes(start, ports) as running:
            gateways = Gateways(upstream, running, start, ports)
            await takes_calls(gateways.urls)
            yield gateways


@asynccontextmanager
async def _processes(
    start: Callable[[int], Awaitable[Child]], ports: list[int]
) -> AsyncIterator[list[Child]]:
    running: list[Child] = []
    try:
        for port in ports:
            running.append(await start(port))
        yield running
    finally:
        await ended(running)


async def test_g20_second_delivery_to_another_gateway_is_told_the_running_answer(
    two: Gateways,
) -> None:
    async with httpx.AsyncClient(verify=NOBODY, timeout=150) as client:
        first, second = await asyncio.gather(two.whole(client, 0), two.whole(client, 1))
        assert first == second
        assert first[-1] == "[DONE]"
        assert await two.whole(client, 1) == first
    assert len(two.upstream.requests) == 1


async def test_runner_killed_in_the_middle_is_told_as_lost_with_its_charge_and_never_run_again(
    two: Gateways, redis: Redis
) -> None:
    two.upstream.behaviour = lambda _: fake.stream(
        *(fake.own_frame(f"word{n} ", n) for n in range(1, 4)), then=[fake.Stall()]
    )
    async with httpx.AsyncClient(verify=NOBODY, timeout=150) as client:
        with contextlib.suppress(httpx.HTTPError):
            async for line in two.stream(client, 0):
                if "word3" in line:
                    await _is_checkpointed(redis, output=3)
                    await two.kill9(0)
        running = asyncio.create_task(two.whole(client, 1))
        await two.restart(0)
        told = await running
        again = await two.whole(client, 0)
    error = json.loads(told[-1])["error"]
    assert error["code"] == "idempotent_run_lost"
    assert told == again, "the same for whoever asks"
    assert any("word3" in event for event in told), "what had left is told again"
    assert len(two.upstream.requests) == 1
    money = await Holds(redis).money(ORGANIZATION_ID, f"org:{ORGANIZATION_ID}")
    assert (money.held_nanousd, money.spent.total_nanousd) == (0, 25_000)
    assert "0.000025 USD" in error["message"]


async def _is_checkpointed(redis: Redis, *, output: int) -> None:
    """Until Redis knows of so many tokens of the call."""
    async with asyncio.timeout(READY_WITHIN_S):
        while True:
            for call in await Holds(redis).due(SHARD, limit=10, now_ms=2**53):
                if call.checkpoint is not None and call.checkpoint.usage.output >= output:
                    return
            await asyncio.sleep(0.05)


async def _left_after(two: Gateways, word: str) -> None:
    """A client of the first gateway that goes once it has heard so much."""
    async with httpx.AsyncClient(verify=NOBODY, timeout=150) as client:
        async for line in two.stream(client, 0):
            if word in line:
                return


async def test_gateway_that_stops_finishes_what_its_client_has_left(two: Gateways) -> None:
    await _left_after(two, "word2")
    await two.stop(0)
    async with httpx.AsyncClient(verify=NOBODY, timeout=150) as client:
        told = await two.whole(client, 1)
    assert told[-1] == "[DONE]"
    assert any("word8" in event for event in told)
    assert len(two.upstream.requests) == 1


async def test_gateway_that_stops_ends_what_it_cannot_finish_and_charges_it(
    two: Gateways, redis: Redis
) -> None:
    """At once: nobody waits for a lease, since the gateway itself says that it is over."""
    two.upstream.behaviour = lambda _: fake.stream(
        *(fake.own_frame(f"word{n} ", n) for n in range(1, 4)), then=[fake.Stall()]
    )
    await _left_after(two, "word3")
    await two.stop(0)
    async with httpx.AsyncClient(verify=NOBODY, timeout=150) as client:
        told = await two.whole(client, 1)
    assert json.loads(told[-1])["error"]["code"] == "idempotent_run_lost"
    assert any("word3" in event for event in told)
    money = await Holds(redis).money(ORGANIZATION_ID, f"org:{ORGANIZATION_ID}")
    assert (money.held_nanousd, money.spent.total_nanousd) == (0, 25_000)
    assert len(two.upstream.requests) == 1
