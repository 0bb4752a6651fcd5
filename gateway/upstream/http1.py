"""A client of HTTP/1.1 for posting to servers: keep-alive connections, answers as they come.

One `asyncio.Protocol` per connection and httptools' parser in it; no task per request. Nothing a
peer sends is trusted: what is parsed without a byte of body coming of it is bounded, a fast peer is
stopped from sending while its reader is slow, and a connection is used again only if its last
answer was whole, wanted to be kept alive and left nothing behind.
"""

import asyncio
import logging
import math
import socket
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, urlsplit

import httptools

from gateway.catalog.external import (
    ConnectionRule,
    address_of,
    has_credentials,
    refused_connection,
)
from gateway.upstream.tunnel import Proxy, is_here, open_tunnel

log = logging.getLogger(__name__)

BARREN_BYTES_MAX = 64 * 1024
"""Of headers, interim answers, chunk sizes and trailers: what may come without any body."""
BUFFER_BYTES = 256 * 1024
"""More than this is not read ahead of a slow reader (one read of the socket may go beyond)."""
KEEP_ALIVE_S = 4.0
"""Less than servers wait, uvicorn's 5 s among them: nobody should post to a closing connection."""
IDLE_CONNECTIONS_MAX = 1024
"""Of one server, kept for later."""
LEFTOVER_BYTES_MAX = 4 * 1024
"""What may follow the part of an answer that matters, if its connection is to be kept."""
LEFTOVER_S = 1.0


TELL_EVERY_S = 30.0
"""Of one server that cannot be connected to."""


class HttpError(Exception):
    """The exchange failed after it may have reached the server."""


class ConnectFailed(HttpError):
    """No connection came about: nothing was sent."""


class TooLate(HttpError):
    """What was awaited within a time did not come in it."""


class Interrupted(Exception):
    """Whoever reads an answer is wanted for something else. Nothing of the answer is lost."""


class SeenThrough:
    """An exchange that is waited for though its task is cancelled, until that is done again:
    `departed` is the first cancellation, kept for whoever asked for the exchange."""

    departed: asyncio.CancelledError | None = None


def tls_context(ca_file: str, certificate_file: str = "") -> ssl.SSLContext:
    """Trusts what the machine does, and the authorities of `ca_file`; shows the certificate of
    `certificate_file` to who asks for one. Raises OSError for a file that is not there or holds
    none."""
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    if certificate_file:
        context.load_cert_chain(certificate_file)
    return context


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a URL leads, and the first lines of every request to it."""

    origin: tuple[str, int, bool]
    """The host, the port and whether TLS is spoken: what connections have in common."""
    head: bytes


class Http1Client:
    """Times are bounds in seconds: of making a connection, and of waiting for the next bytes. A
    server that speaks TLS has to have a certificate by an authority that this machine trusts, or by
    one of `ca_file`, in PEM, and is shown the certificate of `certificate_file` if it asks. It is
    reached by `proxy` unless it is of this machine."""

    def __init__(
        self,
        *,
        connect_timeout_s: float,
        idle_timeout_s: float,
        ca_file: str = "",
        certificate_file: str = "",
        proxy: Proxy | None = None,
        rule: ConnectionRule = refused_connection,
    ) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._idle: dict[tuple[str, int, bool], list[_Connection]] = {}
        self._busy: set[_Connection] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._files = ca_file, certificate_file
        self._proxy = proxy
        self._refused = rule
        self._tls: ssl.SSLContext | None = None
        self._next_notice_s: dict[tuple[str, int, bool], float] = {}
        self._is_closed = False

    def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        within_s: float | None = None,
        connect_s: float | None = None,
        seen_through: SeenThrough | None = None,
    ) -> Coroutine[Any, Any, "Response"]:
        """Send, and return once the head of the answer is here, whatever its status. If `within_s`
        is given the answer has to have `begun` by then, however it came until then. `connect_s`
        bounds this connection in place of the client's own time.

        Raises ConnectFailed, TooLate or HttpError. Leaving before the answer is whole needs
        `close`.
        """
        endpoint = endpoint_of(url)
        request = _request(endpoint, headers, body)
        return self._exchange(endpoint, request, within_s, seen_through, connect_s)

    async def get(self, url: str, headers: Mapping[str, str], *, within_s: float) -> "Response":
        """As `post`, of what is there."""
        endpoint = endpoint_of(url)
        request = b"GET" + _request(endpoint, headers, b"").removeprefix(b"POST")
        return await self._exchange(endpoint, request, within_s, None)

    async def _exchange(
        self,
        endpoint: Endpoint,
        request: bytes,
        within_s: float | None,
        seen_through: SeenThrough | None,
        connect_s: float | None = None,
    ) -> "Response":
        connection = self._take(endpoint) or await self._connect(endpoint, within_s, connect_s)
        response = connection.begin(request, seen_through)
        if within_s is not None:
            response.await_within(within_s)
        try:
            await response.headers_received()
        except BaseException:
            connection.abort()
            raise
        return response

    async def aclose(self) -> None:
        self._is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in [*self._busy, *(c for idle in self._idle.values() for c in idle)]:
            connection.abort()
        await asyncio.sleep(0)

    @property
    def busy_connections(self) -> int:
        return len(self._busy)

    @property
    def idle_connections(self) -> int:
        return sum(map(len, self._idle.values()))

    def _take(self, endpoint: Endpoint) -> "_Connection | None":
        idle = self._idle.get(endpoint.origin)
        now_s = asyncio.get_running_loop().time() if idle else 0.0
        while idle:
            connection = idle.pop()
            if connection.is_usable and now_s - connection.since_s <= KEEP_ALIVE_S:
                self._busy.add(connection)
                return connection
            connection.abort()
        return None

    async def _connect(
        self, endpoint: Endpoint, within_s: float | None, connect_s: float | None
    ) -> "_Connection":
        loop = asyncio.get_running_loop()
        bound_s = connect_s or self._connect_timeout_s
        if within_s is not None:
            bound_s = min(bound_s, within_s)
        host, port, _ = endpoint.origin
        if self._sweep is None:
            self._schedule_sweep(loop)
        try:
            async with asyncio.timeout(bound_s):
                connection = await self._connect_to_one(endpoint, loop)
        except (OSError, TimeoutError, UnicodeError, ValueError) as failed:
            message = f"{host}:{port}: {str(failed) or 'no connection in time'}"
            self._tell(endpoint, message, loop.time())
            raise ConnectFailed(message) from failed
        self._busy.add(connection)
        return connection

    async def _connect_to_one(
        self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop
    ) -> "_Connection":
        """To the first of the host's addresses that takes it, once none of them is refused: what
        was looked at is what is connected to. Raises OSError."""
        host, port, is_tls = endpoint.origin
        if self._proxy is not None and is_tls and not is_here(host):
            return await self._connect_by(self._proxy, endpoint, loop)
        addresses = await self._addresses(host, port, loop)
        failed: OSError = OSError("the host has no address")
        for address in addresses:
            try:
                _, connection = await loop.create_connection(
                    lambda: _Connection(self, endpoint.origin, loop),
                    address,
                    port,
                    ssl=self._tls_context() if is_tls else None,
                    server_hostname=host if is_tls else None,
                )
            except OSError as refused:
                failed = refused
            else:
                return connection
        raise failed

    async def _connect_by(
        self, proxy: Proxy, endpoint: Endpoint, loop: asyncio.AbstractEventLoop
    ) -> "_Connection":
        """The proxy looks up names; an address is refused here as ever. Raises OSError."""
        host, port, _ = endpoint.origin
        if (address := address_of(host)) and (words := self._refused(host, address)):
            raise PermissionError(words)
        link = await open_tunnel(proxy, host, port, loop)
        try:
            _, connection = await loop.create_connection(
                lambda: _Connection(self, endpoint.origin, loop),
                sock=link,
                ssl=self._tls_context(),
                server_hostname=host,
            )
        except BaseException:
            link.close()
            raise
        return connection

    async def _addresses(
        self, host: str, port: int, loop: asyncio.AbstractEventLoop
    ) -> Sequence[str]:
        """Raises PermissionError where one of them is refused."""
        try:
            addresses = [str(ip_address(host))]
        except ValueError:
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
        for address in addresses:
            if words := self._refused(host, ip_address(address)):
                raise PermissionError(words)
        return addresses

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(*self._files)
        return self._tls

    def _tell(self, endpoint: Endpoint, message: str, now_s: float) -> None:
        """Whoever runs this has to see why a server is passed over, now and then."""
        if now_s >= self._next_notice_s.get(endpoint.origin, 0.0):
            self._next_notice_s[endpoint.origin] = now_s + TELL_EVERY_S
            log.warning("no connection to %s", message)

    # --- told by connections ---------------------------------------------------------------------

    def keep(self, connection: "_Connection") -> None:
        """A connection whose answer is whole."""
        self._busy.discard(connection)
        idle = self._idle.setdefault(connection.origin, [])
        if self._is_closed or len(idle) >= IDLE_CONNECTIONS_MAX:
            connection.abort()
        else:
            idle.append(connection)

    def forget(self, connection: "_Connection") -> None:
        self._busy.discard(connection)
        idle = self._idle.get(connection.origin)
        if idle is not None:
            with suppress(ValueError):
                idle.remove(connection)
            if not idle:
                del self._idle[connection.origin]

    # --- bounds of time, looked at now and then instead of by a timer for each wait ---------------

    def _schedule_sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        every_s = min(1.0, self._idle_timeout_s / 8)
        self._sweep = loop.call_later(every_s, self._look_at_all, loop)

    def _look_at_all(self, loop: asyncio.AbstractEventLoop) -> None:
        now_s = loop.time()
        for busy in list(self._busy):
            busy.end_if_late(now_s, self._idle_timeout_s)
        for idle in list(self._idle.values()):
            for connection in [c for c in idle if now_s - c.since_s > KEEP_ALIVE_S]:
                connection.abort()
        self._schedule_sweep(loop)


class Response:
    """One answer. Its status and headers (names in lower case) are there, its body follows."""

    def __init__(
        self,
        connection: "_Connection",
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


class _Connection(asyncio.Protocol):
    """One exchange at a time; a byte beyond it, or between two, ends the connection."""

    def __init__(
        self, client: Http1Client, origin: tuple[str, int, bool], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.origin = origin
        self.since_s = 0.0
        self._client = client
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: _Parser = httptools.HttpResponseParser(self)
        self._response: Response | None = None
        self._headers: dict[str, str] = {}
        self._barren = 0
        self._leftover = -1
        self._is_interim = False
        self._is_whole = False
        self._is_kept_alive = False
        self._is_paused = False

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
        if self._is_kept_alive and self.is_usable:
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
        if response is not None:
            response.end(error)
        self._client.forget(self)


class _Parser(Protocol):
    def feed_data(self, data: bytes) -> Any: ...

    def get_status_code(self) -> int: ...

    def should_keep_alive(self) -> bool: ...


@lru_cache(maxsize=1024)
def endpoint_of(url: str) -> Endpoint:
    """Raises ConnectFailed for what is no URL of a server."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as wrong:
        raise ConnectFailed(f"{url!r}: {wrong}") from wrong
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConnectFailed(f"{url!r} is no address of a server")
    if has_credentials(parts):
        raise ConnectFailed(f"the URL of {parts.hostname} has a user or password in it")
    head = f"POST {_target(parts)} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
    return Endpoint((parts.hostname, port, parts.scheme == "https"), _line_bytes(head))


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _request(endpoint: Endpoint, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    lines.append(f"content-length: {len(body)}\r\n\r\n")
    return b"".join((endpoint.head, _head_of(headers, lines), body))


def _head_of(headers: Mapping[str, str], lines: list[str]) -> bytes:
    for name, value in headers.items():
        if "\r" in value or "\n" in value or "\0" in value:
            raise ConnectFailed(f"header {name} has a line break in it")
    return _line_bytes("".join(lines))


def _line_bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as wrong:
        raise ConnectFailed(f"a header that HTTP cannot carry: {wrong.reason}") from wrong
