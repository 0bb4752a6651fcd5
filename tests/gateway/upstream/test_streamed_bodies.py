"""Bodies that are made while they are sent: no faster than a server reads, and no further than it
listens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from gateway.upstream.http1.client import Http1Client
from gateway.upstream.http1.errors import HttpError, TooLate
from tests.gateway.upstream.test_http1 import SIZED, Server, Talk, serving

PIECE = bytes(256 << 10)
WITHIN_S = 30.0


@dataclass
class Pieces:
    """So many of 256 KiB, and how many of them were made."""

    count: int
    made: list[int] = field(default_factory=list)

    @property
    def size(self) -> int:
        return self.count * len(PIECE)

    def pieces(self) -> Iterator[bytes]:
        for number in range(self.count):
            self.made.append(number)
            yield PIECE


def client() -> Http1Client:
    return Http1Client(connect_timeout_s=10.0, idle_timeout_s=WITHIN_S)


async def test_all_of_it_arrives_each_time_and_the_connection_is_kept() -> None:
    def talk(server: Server) -> Talk:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(2):
                await server.read_request(reader)
                writer.write(SIZED)
                await writer.drain()

        return answer

    async with serving(talk) as server:
        http, body = client(), Pieces(20)
        for _ in range(2):
            response = await http.post(server.url, {"x": "y"}, body, within_s=WITHIN_S)
            assert await response.read() == b"hello"
        assert body.made == [*range(20)] * 2
        assert [len(each.split(b"\r\n\r\n", 1)[1]) for each in server.requests] == [body.size] * 2
        assert server.connections == 1
        await http.aclose()


async def test_a_server_that_does_not_read_is_not_sent_more_and_is_late() -> None:
    def talk(_: Server) -> Talk:
        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(WITHIN_S)

        return wait

    async with serving(talk) as server:
        http, body = client(), Pieces(400)
        with pytest.raises(TooLate):
            await http.post(server.url, {}, body, within_s=0.5)
        assert len(body.made) < 400
        assert http.busy_connections == 0
        await http.aclose()


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_server_that_answers_early_is_heard_and_its_connection_is_not_used_again(
    is_closed: bool,
) -> None:
    refusal = b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nno!"

    def talk(_: Server) -> Talk:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(refusal)
            await writer.drain()
            if not is_closed:
                await asyncio.sleep(WITHIN_S)

        return refuse

    async with serving(talk) as server:
        http, body = client(), Pieces(400)
        try:
            response = await http.post(server.url, {}, body, within_s=WITHIN_S)
            assert (response.status, await response.read()) == (413, b"no!")
        except HttpError:
            assert is_closed, "a connection that is reset may take its answer along"
        assert len(body.made) < 400
        assert http.idle_connections == 0
        await http.aclose()


async def test_whoever_sends_may_leave() -> None:
    def talk(_: Server) -> Talk:
        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(WITHIN_S)

        return wait

    async with serving(talk) as server:
        http, body = client(), Pieces(400)
        sending = asyncio.ensure_future(http.post(server.url, {}, body))
        while not body.made or http.busy_connections == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert http.busy_connections == 0
        await http.aclose()
