"""The client against servers that speak HTTP badly, late, too much or not at all."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.upstream.http1.client import Http1Client
from gateway.upstream.http1.errors import ConnectFailed, HttpError
from gateway.upstream.http1.exchange import BUFFER_BYTES
from gateway.upstream.http1.request import endpoint_of

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
STORY = CHUNKED + b"5\r\nOnce \r\n4;x=y\r\nupon\r\n0\r\nx-trailer: 1\r\n\r\n"
SIZED = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Raw bytes over real sockets: `talk` is run once for each connection."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat"

    async def read_request(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(size))
        return self.requests[-1]


@asynccontextmanager
async def serving(talk: Callable[[Server], Talk]) -> AsyncIterator[Server]:
    server = Server()
    running: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        running.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            await talk(server)(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def says(*answers: bytes | Sequence[bytes], stay: bool = True) -> Callable[[Server], Talk]:
    """Each request of a connection is answered by the next of `answers`, in its pieces."""

    def talk(server: Server) -> Talk:
        async def talking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                await server.read_request(reader)
                for piece in [answer] if isinstance(answer, bytes) else answer:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
            if stay:
                await reader.read()

        return talking

    return talk


@asynccontextmanager
async def a_client(idle_timeout_s: float = 5.0) -> AsyncIterator[Http1Client]:
    client = Http1Client(connect_timeout_s=5.0, idle_timeout_s=idle_timeout_s)
    try:
        async with asyncio.timeout(30):
            yield client
    finally:
        await client.aclose()


async def ask(client: Http1Client, url: str) -> bytes:
    response = await client.post(url, {"x-one": "1"}, b"{}")
    try:
        parts = []
        while part := await response.read():
            parts.append(part)
        return b"".join(parts)
    finally:
        response.close()


async def asked(answer: bytes | Sequence[bytes], *, stay: bool = True) -> bytes:
    async with serving(says(answer, stay=stay)) as server, a_client() as client:
        return await ask(client, server.url)


# --- what is sent -------------------------------------------------------------------------------


async def test_request_is_one_well_formed_message() -> None:
    async with serving(says(SIZED)) as server, a_client() as client:
        assert await ask(client, server.url + "?a=b") == b"hello"
    [request] = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /v1/chat?a=b HTTP/1.1",
        b"host: 127.0.0.1:%d" % server.port,
        b"x-one: 1",
        b"content-length: 2",
    ]
    assert body == b"{}"


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0", "€"])
async def test_header_cannot_smuggle_a_line(value: str) -> None:
    """Not that nobody would listen: a server does, and hears nothing."""
    async with serving(says(SIZED)) as server, a_client() as client:
        with pytest.raises(ConnectFailed, match="header"):
            await client.post(server.url, {"authorization": value}, b"")
        assert not server.requests
        assert await ask(client, server.url) == b"hello"


@pytest.mark.parametrize(
    "url", ["", "ftp://x/", "http://", "http://x:99999/", "http://[::1/", "https://me:a@x/"]
)
def test_what_is_no_url_of_a_server_is_never_connected_to(url: str) -> None:
    with pytest.raises(ConnectFailed):
        endpoint_of(url)


def test_url_says_port_and_host() -> None:
    found = endpoint_of("https://models.example/v1")
    assert found.origin == ("models.example", 443, True)
    assert b"host: models.example\r\n" in found.head
    assert endpoint_of("http://[::1]:80/").origin[0] == "::1"


# --- whole answers, however they come -----------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, len(STORY) - 1), max_size=20))
def test_any_cut_of_the_bytes_gives_the_same_body(places: list[int]) -> None:
    ends = [0, *sorted(set(places)), len(STORY)]
    pieces = [STORY[a:b] for a, b in itertools.pairwise(ends)]
    assert asyncio.run(asked(pieces)) == b"Once upon"


async def test_byte_by_byte_it_is_the_same_and_the_connection_is_kept() -> None:
    single = [bytes([byte]) for byte in STORY]
    async with serving(says(single, SIZED)) as server, a_client() as client:
        assert await ask(client, server.url) == b"Once upon"
        assert await ask(client, server.url) == b"hello"
        assert (server.connections, client.idle_connections) == (1, 1)


async def test_interim_answers_are_passed_over() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    assert await asked(early + SIZED) == b"hello"


async def test_answer_without_a_length_ends_with_its_connection() -> None:
    assert await asked(b"HTTP/1.1 200 OK\r\n\r\nall of it", stay=False) == b"all of it"


async def test_status_and_headers_are_there_before_the_body() -> None:
    async with (
        serving(
            says(b"HTTP/1.1 429 Busy\r\nRetry-After: 7\r\ncontent-length: 3\r\n\r\n")
        ) as server,
        a_client() as client,
    ):
        response = await client.post(server.url, {}, b"")
        assert (response.status, response.headers["retry-after"]) == (429, "7")
        response.close()


# --- what is not a whole answer -----------------------------------------------------------------

BROKEN = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "another version": b"HTTP/9.9 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a switch of protocols": b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "length and chunks": CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-length: 5\r\n\r\n") + b"hello",
    "negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "endless length": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
    "chunk size that is no number": CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "chunk size beyond all bounds": CHUNKED + b"fffffffffffffffffff\r\nhello",
    "chunk longer than its size": CHUNKED + b"2\r\nhello\r\n0\r\n\r\n",
    "header folded and bare": b"HTTP/1.1 200 OK\r\nx: 1\r\n y\r\n\x01: 2\r\n\r\n",
    "header that never ends": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2**20,
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 2**18,
    "interim answers for ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 2**16,
    "a chunk extension that never ends": CHUNKED + b"1;" + b"x" * 2**20,
    "trailers that never end": CHUNKED + b"1\r\na\r\n0\r\n" + b"x: y\r\n" * 2**18,
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN.keys())
async def test_nonsense_is_an_error_and_its_connection_is_not_kept(answer: bytes) -> None:
    async with serving(says(answer)) as server, a_client() as client:
        with pytest.raises(HttpError):
            await ask(client, server.url)
        assert client.idle_connections == 0


BARREN = ("header that never ends", "too many headers", "interim answers for ever")


@pytest.mark.parametrize("kind", [*BARREN, "trailers that never end"])
async def test_what_never_becomes_a_body_is_refused_for_its_size_and_not_for_its_time(
    kind: str,
) -> None:
    async with serving(says(BROKEN[kind])) as server, a_client(idle_timeout_s=3_600.0) as client:
        with pytest.raises(HttpError, match="larger than any may be"):
            await ask(client, server.url)


CUT_SHORT = {
    "nothing at all": b"",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-",
    "half a body": SIZED[:-2],
    "half a chunk": CHUNKED + b"5\r\nOn",
    "no last chunk": CHUNKED + b"5\r\nOnce \r\n",
    "half a last chunk": CHUNKED + b"5\r\nOnce \r\n0\r\n",
}


@pytest.mark.parametrize("answer", CUT_SHORT.values(), ids=CUT_SHORT.keys())
async def test_early_close_is_an_error(answer: bytes) -> None:
    with pytest.raises(HttpError):
        await asked(answer, stay=False)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(0, len(STORY)))
def test_any_bytes_are_a_body_or_an_error(garbage: bytes, place: int) -> None:
    """Never another exception, never a wait without an end."""

    async def survive() -> None:
        with suppress(HttpError):
            await asked(STORY[:place] + garbage, stay=False)

    asyncio.run(survive())


async def test_silence_is_an_error_before_the_head_and_after_it() -> None:
    for answer in (b"", CHUNKED + b"5\r\nOnce \r\n"):
        async with serving(says(answer)) as server, a_client(idle_timeout_s=0.3) as client:
            with pytest.raises(HttpError):
                await ask(client, server.url)
            assert client.idle_connections == 0


async def test_nobody_listening_is_a_failed_connect() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with a_client() as client:
            with pytest.raises(ConnectFailed):
                await client.post(f"http://127.0.0.1:{unused.getsockname()[1]}/", {}, b"")


async def test_host_without_an_address_is_a_failed_connect() -> None:
    async with a_client() as client:
        with pytest.raises(ConnectFailed):
            await client.post("http://no-such-host.invalid/", {}, b"")
        with pytest.raises(ConnectFailed):
            await client.post(f"http://{'x' * 300}/", {}, b"")


# --- connections are kept, and only good ones ---------------------------------------------------


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async with serving(says(SIZED, STORY, SIZED)) as server, a_client() as client:
        assert [await ask(client, server.url) for _ in range(3)] == [
            b"hello",
            b"Once upon",
            b"hello",
        ]
        assert server.connections == 1


@pytest.mark.parametrize("behind", [SIZED, b"x", b"\r\nHTTP/1.1 500 No\r\n\r\n"])
async def test_whole_answer_with_something_behind_it_is_the_last_of_its_connection(
    behind: bytes,
) -> None:
    """What a server says unasked must never be the answer to somebody else's call."""
    async with serving(says(SIZED + behind, SIZED)) as server, a_client() as client:
        assert await ask(client, server.url) == b"hello"
        assert client.idle_connections == 0
        assert await ask(client, server.url) == b"hello"
        assert server.connections == 2


async def test_words_between_two_answers_end_the_connection() -> None:
    unasked = says([SIZED, b"", b"HTTP/1.1 200 OK\r\n"], SIZED)
    async with serving(unasked) as server, a_client() as client:
        assert await ask(client, server.url) == b"hello"
        while client.idle_connections:  # noqa: ASYNC110 bounded by the block
            await asyncio.sleep(0.01)
        assert await ask(client, server.url) == b"hello"
        assert server.connections == 2


async def test_server_that_wants_to_close_is_not_asked_again() -> None:
    closing = SIZED.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    async with serving(says(closing)) as server, a_client() as client:
        assert await ask(client, server.url) == b"hello"
        assert client.idle_connections == 0


async def test_connection_that_was_closed_while_idle_is_not_used() -> None:
    async with serving(says(SIZED, stay=False)) as server, a_client() as client:
        assert await ask(client, server.url) == b"hello"
        while client.idle_connections:  # noqa: ASYNC110 bounded by the block
            await asyncio.sleep(0.01)
        assert await ask(client, server.url) == b"hello"


async def test_connection_that_was_idle_for_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.http1.client.KEEP_ALIVE_S", 0.05)
    async with serving(says(SIZED)) as server, a_client() as client:
        assert await ask(client, server.url) == b"hello"
        while client.idle_connections:  # noqa: ASYNC110 bounded by the block
            await asyncio.sleep(0.01)


async def test_answer_left_at_its_end_keeps_the_connection() -> None:
    """`[DONE]` has been read, the last chunk is still on its way."""
    late = [CHUNKED + b"5\r\nOnce \r\n", b"0\r\n\r\n"]
    async with serving(says(late, SIZED)) as server, a_client() as client:
        response = await client.post(server.url, {}, b"")
        assert await response.read() == b"Once "
        response.leave()
        while not client.idle_connections:  # noqa: ASYNC110 bounded by the block
            await asyncio.sleep(0.01)
        assert await ask(client, server.url) == b"hello"
        assert server.connections == 1


async def test_answer_left_with_much_to_follow_is_hung_up_on() -> None:
    more = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    async with serving(says([CHUNKED + b"1\r\na\r\n", more, more])) as server, a_client() as client:
        response = await client.post(server.url, {}, b"")
        await response.read()
        response.leave()
        while client.busy_connections:  # noqa: ASYNC110 bounded by the block
            await asyncio.sleep(0.01)
        assert client.idle_connections == 0


async def test_answer_that_is_closed_half_way_hangs_up() -> None:
    hung_up = asyncio.Event()

    def talk(server: Server) -> Talk:
        async def talking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.read_request(reader)
            writer.write(CHUNKED + b"5\r\nOnce \r\n")
            await reader.read()
            hung_up.set()

        return talking

    async with serving(talk) as server, a_client() as client:
        response = await client.post(server.url, {}, b"")
        await response.read()
        response.close()
        await hung_up.wait()
        with pytest.raises(HttpError):
            await response.read()


async def test_cancelled_call_hangs_up() -> None:
    async with serving(says(b"")) as server, a_client() as client:
        calling = asyncio.create_task(ask(client, server.url))
        while not server.requests:  # noqa: ASYNC110 bounded by the block
            await asyncio.sleep(0.01)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        assert (client.busy_connections, client.idle_connections) == (0, 0)


# --- bounds -------------------------------------------------------------------------------------


async def test_slow_reader_stops_a_fast_server() -> None:
    """The server gets rid of what the socket and our buffer hold, and no more."""
    total = 64 * 2**20
    sent = 0

    def talk(server: Server) -> Talk:
        async def talking(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await server.read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
            for _ in range(total // 2**16):
                writer.write(b"x" * 2**16)
                await writer.drain()
                sent += 2**16

        return talking

    async with serving(talk) as server, a_client() as client:
        response = await client.post(server.url, {}, b"")
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < total // 2
        size = 0
        while part := await response.read():
            assert len(part) <= 3 * BUFFER_BYTES
            size += len(part)
        assert size == total
