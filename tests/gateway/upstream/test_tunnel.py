"""Servers outside by a proxy: what it is asked, what it cannot read, and what it may answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway.upstream import fake
from gateway.upstream.http1.client import Http1Client
from gateway.upstream.http1.errors import ConnectFailed
from gateway.upstream.http1.tunnel import proxy_of
from tests.gateway.upstream.authority import make_authority
from tests.gateway.upstream.test_tls import ANSWER, told

HOST = "provider.example"


class TunnelProxy:
    """Leads every CONNECT to one port of this machine, or answers something else."""

    def __init__(self, port: int, answer: bytes = b"HTTP/1.1 200 Connection established") -> None:
        self._port = port
        self._answer = answer
        self.heads: list[str] = []
        self.passed = b""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        async with server:
            port: int = server.sockets[0].getsockname()[1]
            yield port

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self._answer + b"\r\nvia: 1.1 here\r\n\r\n")
            if b" 200 " not in self._answer:
                writer.close()
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.passed += data
            writer.write(data)
        writer.close()


async def test_call_goes_by_the_proxy_which_reads_none_of_it(tmp_path: Path) -> None:
    ours = make_authority(tmp_path / "ours")
    async with fake.FakeUpstream(lambda _: ANSWER, ours.server(host=HOST)) as server:
        proxy = TunnelProxy(urlsplit(server.address).port or 0)
        async with proxy.listening() as port:
            client = Http1Client(
                connect_timeout_s=30.0,
                idle_timeout_s=30.0,
                ca_file=ours.file,
                proxy=proxy_of(f"http://me:p%40ss@127.0.0.1:{port}"),
            )
            assert b"Once" in await told(client, f"https://{HOST}")
            await client.aclose()
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\nhost: {HOST}:443\r\n")
    assert "proxy-authorization: Basic bWU6cEBzcw==\r\n" in head
    assert b"secret" not in proxy.passed
    (request,) = server.requests
    assert request.headers["authorization"] == "Bearer secret"
    assert "proxy-authorization" not in request.headers


async def test_servers_of_this_machine_and_those_by_http_need_no_proxy(tmp_path: Path) -> None:
    ours = make_authority(tmp_path / "ours")
    nobody = proxy_of("http://127.0.0.1:9")
    client = Http1Client(
        connect_timeout_s=30.0, idle_timeout_s=30.0, ca_file=ours.file, proxy=nobody
    )
    for tls in (ours.server(), None):
        async with fake.FakeUpstream(lambda _: ANSWER, tls) as server:
            assert b"Once" in await told(client, server.address)
    await client.aclose()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required", "answered 407"),
        (b"nonsense", "answered nonsense"),
    ],
)
async def test_proxy_that_refuses_leaves_the_server_out_of_reach(answer: bytes, words: str) -> None:
    proxy = TunnelProxy(0, answer)
    async with proxy.listening() as port:
        client = Http1Client(
            connect_timeout_s=30.0,
            idle_timeout_s=30.0,
            proxy=proxy_of(f"http://user:word-of-the-proxy@127.0.0.1:{port}"),
        )
        with pytest.raises(ConnectFailed, match=words) as failed:
            await told(client, f"https://{HOST}")
        await client.aclose()
    assert "word-of-the-proxy" not in str(failed.value)


async def test_address_that_no_pool_may_use_is_not_asked_of_the_proxy() -> None:
    proxy = TunnelProxy(0)
    async with proxy.listening() as port:
        client = Http1Client(
            connect_timeout_s=30.0,
            idle_timeout_s=30.0,
            proxy=proxy_of(f"http://127.0.0.1:{port}"),
        )
        with pytest.raises(ConnectFailed, match="no pool may use"):
            await told(client, "https://169.254.169.254")
        await client.aclose()
    assert proxy.heads == []
