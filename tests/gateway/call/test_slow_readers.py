"""Clients that read slowly or not at all, over real sockets: memory is counted, not time."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from redis.asyncio import Redis

from billing.types import CallStatus
from gateway.server.listener import protocol
from gateway.upstream import fake
from gateway.upstream.http1.exchange import BUFFER_BYTES
from tests.gateway.edge import API_KEY, CHAT, Edge, body, edge, story
from tests.gateway.served import HEADS
from tests.redis_server import RedisServer
from tests.stack_process import free_port

WRITE_BUFFER_BYTES = 65536
TEXT = "x" * 8192
FRAMES = 3000
GIVEN_UP_AFTER_S = 2.0
WHAT_ONE_STREAM_MAY_TAKE = WRITE_BUFFER_BYTES + 2 * BUFFER_BYTES + 4 * len(TEXT)
"""In this process: what its server buffers and what its client reads ahead, each a piece beyond."""


@dataclass(slots=True)
class Served:
    edge: Edge
    server: uvicorn.Server
    port: int

    async def post(self, wanted: dict[str, Any], headers: str = "") -> socket.socket:
        """A connection on which the request was sent and nothing is read; its buffer is small."""
        loop = asyncio.get_running_loop()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.setblocking(False)
        await loop.sock_connect(connection, ("127.0.0.1", self.port))
        payload = json.dumps(wanted).encode()
        head = (
            f"POST {CHAT} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer {API_KEY}\r\n"
            f"{headers}content-length: {len(payload)}\r\n\r\n"
        )
        await loop.sock_sendall(connection, head.encode() + payload)
        return connection

    def buffered_bytes(self) -> int:
        """In this process, of all connections: nothing of what the kernel holds."""
        transports = [connection.transport for connection in self.server.server_state.connections]
        return sum(transport.get_write_buffer_size() for transport in transports)


@asynccontextmanager
async def served(one: Edge) -> AsyncIterator[Served]:
    port = free_port()
    bounded = protocol(write_buffer_bytes=WRITE_BUFFER_BYTES, unread_timeout_s=5.0, heads=HEADS)
    server = uvicorn.Server(
        uvicorn.Config(
            one.app,
            port=port,
            http=bounded,
            ws="none",
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=1,
        )
    )
    serving = asyncio.create_task(server._serve())
    async with asyncio.timeout(30):
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    try:
        yield Served(one, server, port)
    finally:
        server.should_exit = True
        await serving


@pytest.fixture
async def here(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Served]:
    own = {"slow_reader_timeout_s": GIVEN_UP_AFTER_S}
    async with edge(redis_server, redis, tmp_path, gateway=own) as one, served(one) as running:
        yield running


def flood() -> fake.Script:
    """24 MiB as fast as they are taken, a token each."""
    frames = [fake.own_frame(TEXT, n) for n in range(1, FRAMES)]
    return fake.stream(*frames, fake.own_frame("", FRAMES, finish="stop"), fake.DONE)


async def _call_ended(here: Served) -> None:
    async with asyncio.timeout(60):
        while not here.edge.upstream.requests or here.edge.parts.accounts.open:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("unread", ["nothing", "a key as well"])
async def test_client_that_does_not_read_is_given_up_charged_and_its_worker_left(
    here: Served, unread: str
) -> None:
    here.edge.upstream.behaviour = lambda _: flood()
    header = "" if unread == "nothing" else "idempotency-key: slow\r\n"
    connection = await here.post(body(max_tokens=2000), header)
    peak = 0
    async with asyncio.timeout(60):
        while not here.edge.upstream.requests or here.edge.parts.accounts.open:
            peak = max(peak, here.buffered_bytes())
            await asyncio.sleep(0.005)
    (call,) = (await here.edge.settled()).values()
    assert 0 < peak <= WHAT_ONE_STREAM_MAY_TAKE
    if header:
        assert call.status is CallStatus.ANSWERED, "the run goes on for whoever comes again"
        assert call.finish_reason == "length"
    else:
        assert (call.status, call.error_code) == (CallStatus.CANCELLED, "slow_reader")
        assert 0 < call.output < FRAMES
        assert here.edge.upstream.sent_bytes < FRAMES * len(TEXT), "its worker was stopped"
    assert call.amount_nanousd == 10 * 1000 + call.output * 5000
    async with asyncio.timeout(30):
        while here.buffered_bytes():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    connection.close()


async def test_slow_readers_are_all_served_and_bounded(here: Served) -> None:
    """Each takes a little at a time, for longer than a reader who takes nothing would be given."""
    here.edge.upstream.behaviour = lambda _: story(frames=40, pause_s=0.005)
    streams = 40
    connections = [await here.post(body(max_tokens=200)) for _ in range(streams)]

    async def sip(connection: socket.socket) -> bytes:
        loop, taken = asyncio.get_running_loop(), b""
        while b"data: [DONE]" not in taken:
            piece = await loop.sock_recv(connection, 512)
            assert piece, taken[-300:]
            taken += piece
            assert here.buffered_bytes() <= streams * WHAT_ONE_STREAM_MAY_TAKE
            await asyncio.sleep(0.1)
        connection.close()
        return taken

    async with asyncio.timeout(60):
        heard = await asyncio.gather(*map(sip, connections))
    assert all(b"word40" in taken for taken in heard)
    calls = await here.edge.settled()
    assert [call.status for call in calls.values()] == [CallStatus.ANSWERED] * streams


async def test_one_reader_who_stops_does_not_stop_the_others(here: Served) -> None:
    here.edge.upstream.scripts.append(flood())
    stuck = await here.post(body(max_tokens=2000))
    async with asyncio.timeout(30):
        while not here.edge.upstream.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    answers = await asyncio.gather(*(here.edge.post(body()) for _ in range(10)))
    assert all(answer.events[-1] == "[DONE]" for answer in answers)
    await _call_ended(here)
    await here.edge.settled()
    stuck.close()
