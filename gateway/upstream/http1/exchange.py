"""One exchange on one connection: an `asyncio.Protocol` with httptools' parser in it.

Nothing a peer sends is trusted: what is parsed without a byte of body coming of it is bounded, and
a fast peer is stopped from sending while its reader is slow.
"""

import asyncio
import math
from collections.abc import Iterator
from typing import Any, Protocol, cast

import httptools

from gateway.upstream.http1.errors import HttpError, TooLate

BARREN_BYTES_MAX = 64 * 1024
"""Of headers, interim answers, chunk sizes and trailers: what may come without any body."""
BUFFER_BYTES = 256 * 1024
"""More than this is not read ahead of a slow reader (one read of the socket may go beyond)."""
LEFTOVER_BYTES_MAX = 4 * 1024
"""What may follow the part of an answer that matters, if its connection is to be kept."""
LEFTOVER_S = 1.0


class Interrupted(Exception):
    """Whoever reads an answer is wanted for something else. Nothing of the answer is lost."""


class SeenThrough:
    """An exchange that is waited for though its task is cancelled, until that is done again:
    `departed` is the first cancellation, kept for whoever asked for the exchange."""

    departed: asyncio.CancelledError | None = None


class Connections(Protocol):
    """Whoever has the connections of a process."""

    def keep(self, connection: "Connection") -> None: ...

    def forget(self, connection: "Connection") -> None: ...


class Response:
    """One answer. Its status and headers (names in lower case) are there, its body follows."""

    def __init__(
        self,
        connection: "Connection",
        loop: asyncio.AbstractEventLoop,
        seen_through: SeenThrough | None,
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._connection = connection
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0
        self._waiter: asyncio.Future[None] | None = None
        self._broken: Exception | None = None
        self._is_whole = False
        self._has_head = False
        self._is_left = False
        self._is_interrupted = False
        self._seen_through = seen_through
        self._timer: asyncio.TimerHandle | None = None
        self.waits_since_s: float | None = None
        self.idle_timeout_s: float | None = None

    def await_within(self, seconds: float) -> None:
        """Until it has `begun` this is all the time there is; silences are not counted."""
        self.idle_timeout_s = math.inf
        self._timer = self._loop.call_later(
            seconds, self._connection.fail, TooLate(f"not within {seconds:.3f} s")
        )

    def begun(self, idle_timeout_s: float) -> None:
        """What was awaited is here; from now on silences are counted."""
        self.idle_timeout_s = idle_timeout_s
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def read(self) -> bytes:
        """What has come since the last time, at least a byte; b"" at the end. Raises HttpError, and
        Interrupted once after each `interrupt`."""
        while self._is_interrupted or not self._parts:
            if self._is_interrupted:
                self._is_interrupted = False
                raise Interrupted
            if self._broken is not None:
                raise self._error("the connection broke") from self._broken
            if self._is_whole:
                return b""
            await self._news()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        if self._size > BUFFER_BYTES:
            self._connection.resume()
        self._size = 0
        return data

    def interrupt(self) -> None:
        """Have its reader stop reading, unless the answer is over."""
        if not self._is_whole and self._broken is None:
            self._is_interrupted = True
            self._wake()

    def leave(self) -> None:
        """The rest does not matter: keep the connection if hardly anything follows."""
        self._is_left = True
        self._parts.clear()
        self._size = 0
        if not self._is_whole:
            self._connection.leave()

    def close(self) -> None:
        """Hang up, unless all of the answer has come already."""
        if not self._is_whole:
            self._connection.abort()

    async def headers_received(self) -> None:
        while not self._has_head:
            if self._broken is not None:
                raise self._error("no answer") from self._broken
            await self._news()

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        self.waits_since_s = self._loop.time()
        try:
            await self._waiter
        except asyncio.CancelledError as departed:
            if self._seen_through is None or self._seen_through.departed is not None:
                raise
            self._seen_through.departed = departed
        finally:
            self._waiter = None
            self.waits_since_s = None

    def _error(self, what: str) -> HttpError:
        kind = TooLate if isinstance(self._broken, TooLate) else HttpError
        return kind(f"{what}: {self._broken}")

    # --- told by the connection ------------------------------------------------------------------

    def add_head(self, status: int, headers: dict[str, str]) -> None:
        self.status, self.headers, self._has_head = status, headers, True
        self._wake()

    def add_body(self, part: bytes) -> bool:
        """False where no more should come for now."""
        if self._is_left:
            return True
        self._parts.append(part)
        self._size += len(part)
        self._wake()
        return self._size <= BUFFER_BYTES

    def end(self, broken: Exception | None = None) -> None:
        if self._is_whole or self._broken is not None:
            return
        self._is_whole, self._broken = broken is None, broken
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Connection(asyncio.Protocol):
    """One exchange at a time; a byte beyond it, or between two, ends the connection."""

    def __init__(
        self, client: Connections, origin: tuple[str, int, bool], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.origin = origin
        self.since_s = 0.0
        self._client = client
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: Parser = httptools.HttpResponseParser(self)
        self._response: Response | None = None
        self._headers: dict[str, str] = {}
        self._barren = 0
        self._leftover = -1
        self._is_interim = False
        self._is_whole = False
        self._is_kept_alive = False
        self._is_paused = False
        self._is_sending = False
        self._room: asyncio.Future[None] | None = None
        """Until there is some again for what is to be sent."""

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def begin(self, request: bytes, seen_through: SeenThrough | None) -> Response:
        assert self._transport is not None, "a connection is used after it was made"
        self._response = response = Response(self, self._loop, seen_through)
        self._barren = 0
        self._leftover = -1
        self._is_whole = False
        self._transport.write(request)
        return response

    async def send(self, rest: Iterator[bytes]) -> None:
        """The rest of a request, until the server answers: some do before they have read it all,
        and this connection has had its last request then."""
        response, self._is_sending = self._response, True
        for piece in rest:
            if response is None or response is not self._response or response.status:
                return
            assert self._transport is not None, "a lost connection has no response"
            self._transport.write(piece)
            if self._room is None:
                await asyncio.sleep(0)
            else:
                response.waits_since_s = self._loop.time()
                await self._room
                response.waits_since_s = None
        self._is_sending = False

    def leave(self) -> None:
        self._leftover = 0
        self.since_s = self._loop.time()
        self.resume()

    def resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._lost(ConnectionAbortedError("it was closed from here"))

    def end_if_late(self, now_s: float, idle_timeout_s: float) -> None:
        response = self._response
        if response is None:
            return
        if self._leftover >= 0 and now_s - self.since_s > LEFTOVER_S:
            self.abort()
            return
        bound_s = response.idle_timeout_s or idle_timeout_s
        if now_s - (response.waits_since_s or now_s) > bound_s:
            self.fail(TimeoutError(f"nothing came for {bound_s} s"))

    # --- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self.abort()  # words that nobody asked for
            return
        self._barren += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as nonsense:
            if not self._is_whole:
                self.fail(nonsense)
                return
            self._is_kept_alive = False  # what came behind the answer is nobody's
        if self._is_whole:
            self._finish(response)
        elif self._barren > BARREN_BYTES_MAX:
            self.fail(ValueError("a head or a frame of chunks is larger than any may be"))
        elif self._leftover >= 0:
            self._leftover += len(data)
            if self._leftover > LEFTOVER_BYTES_MAX:
                self.abort()

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def eof_received(self) -> bool:
        if self._response is not None and self._ends_with_the_connection:
            self._response.end()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._lost(error or ConnectionResetError("the server closed the connection"))

    # --- httptools -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise ValueError("a second answer")
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._is_interim = status < 200
        if not self._is_interim and self._response is not None:
            self._response.add_head(status, self._headers)
            if self._is_sending:
                self.resume_writing()

    def on_body(self, body: bytes) -> None:
        self._barren = 0
        if self._response is not None and not self._response.add_body(body):
            self._pause()

    def on_message_complete(self) -> None:
        if not self._is_interim:
            self._is_whole = True
            self._is_kept_alive = self._parser.should_keep_alive()

    # --- ends ------------------------------------------------------------------------------------

    @property
    def _ends_with_the_connection(self) -> bool:
        """An answer of unknown length, whose head has come."""
        response = self._response
        if response is None or not response.status or self._is_whole:
            return False
        return not response.headers.keys() & {"content-length", "transfer-encoding"}

    def _pause(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _finish(self, response: Response) -> None:
        """A whole answer, and nothing came behind it."""
        self._response = None
        self.resume()
        response.end()
        if self._is_kept_alive and self.is_usable and not self._is_sending:
            self.since_s = self._loop.time()
            self._client.keep(self)
        else:
            self.abort()

    def fail(self, error: Exception) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.end(error)
        self.abort()

    def _lost(self, error: Exception) -> None:
        response, self._response, self._transport = self._response, None, None
        self.resume_writing()
        if response is not None:
            response.end(error)
        self._client.forget(self)


class Parser(Protocol):
    def feed_data(self, data: bytes) -> Any: ...

    def get_status_code(self) -> int: ...

    def should_keep_alive(self) -> bool: ...
