"""A process of adapters that answers nonsense costs its own calls a failover, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.types import Usage
from tests.gateway.edge import FAR, body, edge
from tests.providers.fakes import fake_provider
from tests.providers.test_behind_a_gateway import POOL, WHOLE
from tests.redis_server import RedisServer

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
NONSENSE = {
    "nothing": b"",
    "no HTTP": b"\x00\xff nonsense\r\n\r\n",
    "a page": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\n\r\n<p/>",
    "no chunk": HEAD + b"data: nonsense\n\n",
    "another shape": HEAD + b'data: {"choices": [{"delta": {"content": 7}}]}\n\n',
    "an end at once": HEAD + b"data: [DONE]\n\n",
    "an event without end": HEAD + b"data: " + b"x" * (9 << 20),
    "no document": JSON + b'{"choices": 3}',
    "an error of ours": b"HTTP/1.1 500 No\r\ncontent-length: 9\r\n\r\nTraceback",
}


class BrokenProcess:
    """Says these bytes to whoever asks, and ends the connection."""

    def __init__(self) -> None:
        self.says = b""
        self.asked = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.asked += 1
            writer.write(self.says)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def broken_process() -> AsyncIterator[tuple[BrokenProcess, int]]:
    broken = BrokenProcess()
    server = await asyncio.start_server(broken.answer, "127.0.0.1", 0)
    async with server:
        yield broken, server.sockets[0].getsockname()[1]


async def test_nonsense_of_the_adapters_costs_their_own_calls_a_failover_and_no_other(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        broken_process() as (broken, port),
        fake_provider("azure", Usage(input=2, output=6)) as far,
    ):
        monkeypatch.setenv("SLUICE_PROVIDERS__PORT", str(port))
        elsewhere = {"name": "far", "model": FAR, "base_url": far.url}
        async with edge(
            *(redis_server, redis, tmp_path),
            outer="https://api.anthropic.com",
            outer_pool=POOL,
            outer_pools=[elsewhere],
        ) as one:
            for name, says in NONSENSE.items():
                await one.heals()
                broken.says, broken.asked = says, 0
                for more in (WHOLE, {}):
                    response = await one.post(body(**more))
                    pool = response.headers.get("x-sluice-pool")
                    assert (response.status, pool) == (200, "tale-reserved"), name
                    assert b"Traceback" not in response.body, name
                    *_, call = (await one.settled()).values()
                    outcomes = [attempt.outcome for attempt in call.attempts]
                    assert outcomes in (["cut", "answered"], ["answered"]), (name, outcomes)
                assert broken.asked, name
                response = await one.post(body(model=FAR))
                *_, call = (await one.settled()).values()
                assert response.status == 200, name
                assert [attempt.outcome for attempt in call.attempts] == ["answered"], name
