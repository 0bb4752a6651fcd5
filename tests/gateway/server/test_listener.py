"""Whole answers leave in one write, and nothing leaves that uvicorn would not have let go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from gateway.server.listener import BODY, LEAVING, PIECE, WHOLE, protocol
from tests.gateway.served import HEADS

CALL = b"POST /v1 HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}"
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[dict[str, Any], Any, Send], Awaitable[None]]


class Wire(asyncio.Transport):
    """Keeps what is written, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False
        self.gone = asyncio.Event()

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True
        self.gone.set()

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def answered(app: App, request: bytes = CALL, *, kept_s: float = 5.0) -> Wire:
    config = Config(app, access_log=False, log_config=None)
    config.timeout_keep_alive = kept_s  # type: ignore[assignment]  # whole seconds by its type
    config.load()
    state = ServerState()
    server = protocol(write_buffer_bytes=1024, unread_timeout_s=1, heads=HEADS)(config, state, {})
    wire = Wire()
    server.connection_made(wire)
    server.data_received(request)
    while state.tasks:
        await asyncio.wait(state.tasks)
    return wire


def whole(body: bytes, *headers: tuple[bytes, bytes], more: bool = False) -> App:
    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
        await send({"type": "http.response.body", "body": body, "more_body": more})
        if more:
            await send({"type": "http.response.body", "body": b""})

    return app


def at_once(body: bytes, said: list[bool], tries: int = 1) -> App:
    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        has_left = scope["extensions"][WHOLE]["has_left"]
        head = b"content-length: %d\r\nx-a: b\r\n" % len(body)
        said.extend([has_left(scope, 200, head, body) for _ in range(tries)])
        if not said[0]:
            await whole(body, (b"content-length", b"%d" % len(body)))(scope, receive, send)

    return app


async def test_whole_answer_is_one_write_and_leaves_once() -> None:
    said: list[bool] = []
    wire = await answered(at_once(b"hello", said, tries=2))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: b\r\n\r\nhello"]
    assert said == [True, False]


@pytest.mark.parametrize(
    "request_",
    [CALL.replace(b"host: a", b"host: a\r\nconnection: close"), CALL.replace(b"POST", b"HEAD")],
)
async def test_answer_that_is_not_plain_is_left_to_the_server(request_: bytes) -> None:
    said: list[bool] = []
    wire = await answered(at_once(b"hello", said), request_)
    assert said == [False]
    assert b"".join(wire.writes).startswith(b"HTTP/1.1 200 OK\r\ncontent-length: 5")


async def test_answers_to_requests_in_a_row_leave_in_their_order() -> None:
    said: list[bool] = []
    wire = await answered(at_once(b"hello", said), CALL + CALL)
    assert said == [False, True]  # of what waits in a row only the last one is looked at
    assert b"".join(wire.writes).count(b"hello") == 2


async def test_connection_without_another_request_is_closed_after_its_time() -> None:
    wire = await answered(whole(b"hello", (b"content-length", b"5")), kept_s=1.0)
    assert not wire.closed
    async with asyncio.timeout(30):
        await wire.gone.wait()


async def test_answer_in_pieces_is_the_same_bytes() -> None:
    wire = await answered(whole(b"hello", (b"content-length", b"5"), more=True))
    assert b"".join(wire.writes) == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"


async def test_answer_of_unknown_length_is_chunked() -> None:
    wire = await answered(whole(b"hello"))
    assert b"".join(wire.writes).endswith(b"chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")


async def test_pieces_of_a_stream_are_chunks_and_empty_ones_end_nothing() -> None:
    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"hello", b"", b"x" * 17):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"bye"})

    wire = await answered(app)
    body = b"".join(wire.writes).partition(b"\r\n\r\n")[2]
    assert body == b"5\r\nhello\r\n11\r\n" + b"x" * 17 + b"\r\n3\r\nbye\r\n0\r\n\r\n"


def in_pieces(said: list[bool], *pieces: bytes, **start: Any) -> App:
    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        has_left = scope["extensions"][PIECE]["has_left"]
        said.append(has_left(scope, b"too early"))
        await send({"type": "http.response.start", "status": 200, "headers": [], **start})
        said.extend([has_left(scope, piece) for piece in pieces])
        await send({"type": "http.response.body", "body": b"bye"})
        said.append(has_left(scope, b"too late"))

    return app


async def test_piece_of_a_stream_leaves_in_a_write_of_its_own() -> None:
    said: list[bool] = []
    wire = await answered(in_pieces(said, b"hello", b"x" * 17))
    assert said == [False, True, True, False]
    assert wire.writes[1:3] == [b"5\r\nhello\r\n", b"11\r\n" + b"x" * 17 + b"\r\n"]
    assert b"".join(wire.writes).endswith(b"3\r\nbye\r\n0\r\n\r\n")


async def test_piece_that_says_nothing_ends_nothing() -> None:
    said: list[bool] = []
    wire = await answered(in_pieces(said, b"", b"hello"))
    assert said == [False, False, True, False]
    assert b"".join(wire.writes).count(b"0\r\n\r\n") == 1


@pytest.mark.parametrize(
    "start",
    [{"headers": [(b"content-length", b"3")]}, {"status": 204}],
    ids=["known_length", "no_body"],
)
async def test_piece_of_what_is_not_chunked_is_left_to_the_server(start: dict[str, Any]) -> None:
    said: list[bool] = []
    await answered(in_pieces(said, b"hello", **start))
    assert said[:2] == [False, False]


async def test_piece_for_a_client_that_does_not_read_or_wants_a_head_is_left_to_the_server() -> (
    None
):
    said: list[bool] = []
    await answered(in_pieces(said, b"hello"), CALL.replace(b"POST", b"HEAD"))
    assert said == [False, False, False]

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        send.__self__.flow.pause_writing()  # type: ignore[attr-defined]
        said.append(scope["extensions"][PIECE]["has_left"](scope, b"hello"))
        send.__self__.flow.resume_writing()  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b"bye"})

    wire = await answered(app)
    assert said[3:] == [False]
    assert b"hello" not in b"".join(wire.writes)


async def test_pieces_of_the_first_of_two_requests_in_a_row_are_left_to_the_server() -> None:
    """Of what waits in a row only the last one is looked at."""
    said: list[bool] = []
    await answered(in_pieces(said, b"hello"), CALL + CALL)
    assert said == [False, False, False, False, True, False]


async def test_answer_to_head_has_no_body() -> None:
    wire = await answered(
        whole(b"hello", (b"content-length", b"5")), b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n"
    )
    assert b"".join(wire.writes) == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"


async def test_connection_that_is_to_be_closed_is() -> None:
    request = CALL.replace(b"host: a", b"host: a\r\nconnection: close")
    wire = await answered(whole(b"hello", (b"content-length", b"5")), request)
    assert b"connection: close" in wire.writes[0]
    assert wire.closed


@pytest.mark.parametrize("pair", [(b"x-a", b"b\r\nset-cookie: c"), (b"x a", b"b")])
async def test_header_that_http_cannot_carry_does_not_leave(pair: tuple[bytes, bytes]) -> None:
    wire = await answered(whole(b"hello", (b"content-length", b"5"), pair))
    assert b"hello" not in b"".join(wire.writes)
    assert b"set-cookie" not in b"".join(wire.writes)


async def test_answer_of_another_length_than_announced_breaks_its_connection() -> None:
    wire = await answered(whole(b"hello", (b"content-length", b"4")))
    assert b"hello" not in b"".join(wire.writes)
    assert wire.closed


async def test_head_whose_body_never_comes_breaks_its_connection() -> None:
    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        raise ValueError

    wire = await answered(app)
    assert wire.closed


async def test_body_is_given_once_and_only_whole() -> None:
    seen: list[bytes | None] = []

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        take = scope["extensions"][BODY]["whole"]
        seen.extend((take(scope), take(dict(scope))))
        await whole(b"", (b"content-length", b"0"))(scope, receive, send)

    await answered(app)
    await answered(app, CALL + CALL)
    assert seen == [b"{}", None, None, None, b"{}", None]


async def test_who_is_told_of_a_lost_connection_is_told_late_too() -> None:
    told: list[str] = []
    server = protocol(write_buffer_bytes=1024, unread_timeout_s=1, heads=HEADS)(
        Config(whole(b""), access_log=False, log_config=None), ServerState(), {}
    )
    server.connection_made(Wire())
    server.parser.feed_data(CALL[:10])
    leaving = server.scope["extensions"][LEAVING]  # type: ignore[index]
    leaving["tell"](lambda: told.append("at once"))
    server.connection_lost(None)
    leaving["tell"](lambda: told.append("late"))
    await asyncio.sleep(0)
    assert told == ["at once", "late"]
