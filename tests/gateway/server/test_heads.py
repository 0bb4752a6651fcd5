"""Requests before they are requests: whatever the bytes, the answer is one error object or the
request that was meant."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uvicorn import Config
from uvicorn.server import ServerState

from gateway.server.heads import WAITING_MAX, Heads
from gateway.server.listener import protocol
from tests.gateway.server.test_listener import App, Send, Wire

BYTES_MAX = 512
BROKEN = {
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a method that there is not": b"FROB / HTTP/1.1\r\nhost: a\r\n\r\n",
    "a version that there is not": b"GET / HTTP/9.9\r\nhost: a\r\n\r\n",
    "a URL in the caller's own letters": "GET /é HTTP/1.1\r\nhost: a\r\n\r\n".encode(),
    "a header without a colon": b"GET / HTTP/1.1\r\nhost\r\n\r\n",
    "a header with a space in its name": b"GET / HTTP/1.1\r\nho st: a\r\n\r\n",
    "a header with a control character": b"GET / HTTP/1.1\r\nhost: a\x00b\r\n\r\n",
    "a length that is none": b"POST / HTTP/1.1\r\ncontent-length: two\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    "a length and chunks": (
        b"POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"
    ),
    "a chunk without a length": b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "a tunnel": b"CONNECT elsewhere:443 HTTP/1.1\r\nhost: elsewhere\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
    "two keys": b"GET / HTTP/1.1\r\nhost: a\r\nAuthorization: Bearer a\r\n"
    b"authorization: Bearer b\r\n\r\n",
    "two of Anthropic's keys": b"GET / HTTP/1.1\r\nhost: a\r\nx-api-key: a\r\nx-api-key: b\r\n\r\n",
    "two kinds of body": b"POST / HTTP/1.1\r\nhost: a\r\n"
    b"content-type: a/b\r\ncontent-type: c/d\r\n\r\n",
    "two keys behind a wish": b"GET / HTTP/1.1\r\nhost: a\r\n"
    b"connection: upgrade\r\nupgrade: h2c\r\n"
    b"authorization: Bearer a\r\nauthorization: Bearer a\r\n\r\n",
}


class Seen:
    """An application that keeps what it was asked, and answers with the body."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes]] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        self.asked.append((scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


class Server:
    """One connection, fed by hand; `beside` is another one of the same server."""

    def __init__(
        self,
        app: App,
        timeout_s: float = 30.0,
        *,
        connections_max: int = 10,
        beside: Server | None = None,
    ) -> None:
        config = Config(app, access_log=False, log_config=None)
        config.load()
        self.state, self.wire = beside.state if beside else ServerState(), Wire()
        heads = Heads(BYTES_MAX, timeout_s, lambda: "req_1", lambda: 0.0, connections_max)
        made = protocol(write_buffer_bytes=1024, unread_timeout_s=1, heads=heads)
        self.protocol = made(config, self.state, {})
        self.protocol.connection_made(self.wire)

    def feed(self, *pieces: bytes) -> None:
        for piece in pieces:
            if not self.wire.closed:
                self.protocol.data_received(piece)

    async def end(self) -> bytes:
        """All that was written, once every answer is there."""
        self.protocol._unset_keepalive_if_required()
        self.protocol.connection_lost(None)
        while self.state.tasks:
            await asyncio.wait(self.state.tasks)
        return b"".join(self.wire.writes)


def refused(written: bytes, status: int) -> dict[str, Any]:
    head, _, body = written.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert first.split()[:2] == ["HTTP/1.1", str(status)]
    assert headers["content-type"] == "application/json"
    assert (headers["connection"], headers["x-request-id"]) == ("close", "req_1")
    assert int(headers["content-length"]) == len(body)
    error: dict[str, Any] = json.loads(body)["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error


@pytest.mark.parametrize("sent", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_http_is_refused_in_words(sent: bytes) -> None:
    app = Seen()
    server = Server(app)
    server.feed(sent)
    assert server.wire.closed
    error = refused(await server.end(), 400)
    assert error["type"] == "invalid_request_error"
    assert not app.asked


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
async def test_no_bytes_are_a_crash(sent: bytes, cuts: list[int]) -> None:
    """Whatever is sent, cut anywhere: nothing is written, or one answer."""
    server = Server(Seen())
    edges = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    server.feed(*(sent[a:b] for a, b in pairwise(edges)))
    written = await server.end()
    assert written.count(b"HTTP/1.1 ") <= 1 or written.startswith(b"HTTP/1.1 200")


async def test_nothing_is_said_into_the_midst_of_an_answer() -> None:
    """Only hung up: a client cannot tell where one answer ends if another begins in it."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        begun.set()
        await go_on.wait()

    server = Server(app)
    server.feed(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
    await begun.wait()
    server.feed(b"\x00\x01 nonsense\r\n\r\n")
    assert server.wire.closed
    go_on.set()
    assert (await server.end()).count(b"HTTP/1.1") == 1


# --- bounds --------------------------------------------------------------------------------------


async def test_head_without_an_end_is_refused_at_its_bound() -> None:
    server = Server(Seen())
    server.feed(b"GET / HTTP/1.1\r\n", *[b"x-more: and more\r\n"] * 100)
    assert refused(await server.end(), 431)["code"] == "request_headers_too_large"
    assert server.protocol._head_bytes <= BYTES_MAX + 100


@given(st.integers(BYTES_MAX - 100, BYTES_MAX + 100), st.lists(st.integers(0, 700), max_size=4))
@settings(deadline=None)
async def test_bound_of_a_head_does_not_ask_in_how_many_pieces_it_comes(
    size: int, cuts: list[int]
) -> None:
    """130 kB that came at once passed a bound of 64."""
    head = b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * size + b"\r\n\r\n"
    server = Server(Seen())
    edges = sorted({0, len(head), *(cut for cut in cuts if cut < len(head))})
    server.feed(*(head[a:b] for a, b in pairwise(edges)))
    while server.state.tasks:
        await asyncio.wait(server.state.tasks)
    written = await server.end()
    assert written.startswith(b"HTTP/1.1 431 " if len(head) > BYTES_MAX else b"HTTP/1.1 200 ")


async def test_head_of_old_http_needs_no_host() -> None:
    server = Server(Seen())
    server.feed(b"GET / HTTP/1.0\r\n\r\n")
    while server.state.tasks:
        await asyncio.wait(server.state.tasks)
    assert (await server.end()).startswith(b"HTTP/1.1 200")


async def test_head_behind_a_large_body_is_bounded_by_itself() -> None:
    server = Server(Seen())
    first = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 4000\r\n\r\n" + b"x" * 4000
    server.feed(first + b"GET /b HTTP/1.1\r\nho", b"st: a\r\n\r\n")
    while server.state.tasks:
        await asyncio.wait(server.state.tasks)
    assert (await server.end()).count(b"HTTP/1.1 200 OK") == 2


async def test_requests_that_wait_in_a_row_are_bounded() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        begun.set()
        await go_on.wait()

    server = Server(app)
    server.feed(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 10_000)
    await begun.wait()
    assert len(server.protocol.pipeline) <= WAITING_MAX
    assert server.wire.closed
    go_on.set()
    await server.end()


async def test_head_that_comes_too_slowly_is_refused() -> None:
    server = Server(Seen(), timeout_s=0.05)
    server.feed(b"GET /")
    async with asyncio.timeout(30):
        while not server.wire.closed:
            server.feed(b"x")  # a byte now and then does not help
            await asyncio.sleep(0.01)
    refused(await server.end(), 408)


async def test_connection_on_which_nothing_is_said_is_closed() -> None:
    server = Server(Seen(), timeout_s=0.05)
    async with asyncio.timeout(30):
        while not server.wire.closed:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert await server.end() == b""


async def test_bounds_of_a_head_are_not_those_of_a_connection() -> None:
    """Many requests on one, and a large body, are none of their business."""
    app = Seen()
    server = Server(app)
    for _ in range(20):
        server.feed(
            b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-le", b"ngth: 4000\r\n\r\n", *[b"x" * 1000] * 4
        )
        while server.state.tasks:
            await asyncio.wait(server.state.tasks)
    assert (await server.end()).count(b"HTTP/1.1 200 OK") == 20
    assert {len(body) for _, _, body in app.asked} == {4000}


async def test_rest_of_a_body_whose_request_is_answered_is_not_awaited_for_ever() -> None:
    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    server = Server(app, timeout_s=0.05)
    server.feed(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    async with asyncio.timeout(30):
        while not server.wire.closed:
            server.feed(b"1\r\nx\r\n")
            await asyncio.sleep(0.01)
    assert (await server.end()).startswith(b"HTTP/1.1 401")


async def test_connection_beyond_the_bound_is_refused_and_those_within_it_are_not() -> None:
    one = Server(Seen(), connections_max=2)
    two = Server(Seen(), connections_max=2, beside=one)
    three = Server(Seen(), connections_max=2, beside=one)
    assert (one.wire.closed, two.wire.closed, three.wire.closed) == (False, False, True)
    assert b"retry-after: 1" in b"".join(three.wire.writes)
    assert refused(await three.end(), 503)["code"] == "server_is_overloaded"
    four = Server(Seen(), connections_max=3, beside=one)
    assert not four.wire.closed


# --- wishes for other protocols ------------------------------------------------------------------

WISHES = {
    "http/2 in the clear": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAEAAEAAAAIAAAAA\r\n",
    "a websocket": b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
}


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("chunked", [False, True])
async def test_wish_for_another_protocol_is_passed_over_and_the_body_heard(
    wish: bytes, chunked: bool
) -> None:
    """Java's own client asks for HTTP/2 with every request: its body was lost."""
    body = b'3\r\n{"a\r\n4\r\n": 1\r\n1\r\n}\r\n0\r\n\r\n' if chunked else b'{"a": 1}'
    length = b"transfer-encoding: chunked" if chunked else b"content-length: 8"
    request = b"POST /v1?a=b HTTP/1.1\r\nHost: a\r\n" + wish + length + b"\r\n\r\n" + body
    for cut in range(1, len(request)):
        app = Seen()
        server = Server(app)
        server.feed(request[:cut], request[cut:])
        while server.state.tasks:
            await asyncio.wait(server.state.tasks)
        assert (await server.end()).startswith(b"HTTP/1.1 200 OK"), cut
        assert app.asked == [("POST", "/v1", b'{"a": 1}')]


@given(st.lists(st.booleans(), min_size=1, max_size=WAITING_MAX))
@settings(deadline=None)
async def test_wishes_in_a_row_are_requests_in_a_row(wishes: list[bool]) -> None:
    wish = b"connection: upgrade\r\nupgrade: websocket\r\n"
    app = Seen()
    server = Server(app)
    requests = [
        b"GET /%d HTTP/1.1\r\nhost: a\r\n%b\r\n" % (number, wish if has_wish else b"")
        for number, has_wish in enumerate(wishes)
    ]
    server.feed(b"".join(requests))
    while server.state.tasks:
        await asyncio.wait(server.state.tasks)
    assert [path for _, path, _ in app.asked] == [f"/{n}" for n in range(len(wishes))]
    assert (await server.end()).count(b"HTTP/1.1 200") == len(wishes)


async def test_no_number_of_wishes_in_one_packet_is_a_crash(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each was read within the reading of the one before, until Python's stack was at its end."""
    server = Server(Seen())
    server.feed(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n" * 3000)
    await server.end()
    assert not caplog.records
