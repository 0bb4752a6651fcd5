"""A client of HTTP/1.1 for posting to servers: keep-alive connections, answers as they come.

No task per request. A connection is used again only if its last answer was whole, wanted to be kept
alive and left nothing behind.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

from gateway.catalog.external import ConnectionRule, address_of, refused_connection
from gateway.upstream.http1.errors import ConnectFailed
from gateway.upstream.http1.exchange import Connection, Response, SeenThrough
from gateway.upstream.http1.request import (
    Endpoint,
    StreamedBody,
    endpoint_of,
    head_of,
    request_of,
)
from gateway.upstream.http1.tunnel import Proxy, is_here, open_tunnel

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 4.0
"""Less than servers wait, uvicorn's 5 s among them: nobody should post to a closing connection."""
IDLE_CONNECTIONS_MAX = 1024
"""Of one server, kept for later."""
TELL_EVERY_S = 30.0
"""Of one server that cannot be connected to."""


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
        self._idle: dict[tuple[str, int, bool], list[Connection]] = {}
        self._busy: set[Connection] = set()
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
        body: bytes | StreamedBody,
        *,
        within_s: float | None = None,
        connect_s: float | None = None,
        seen_through: SeenThrough | None = None,
    ) -> Coroutine[Any, Any, Response]:
        """Send, and return once the head of the answer is here, whatever its status. If `within_s`
        is given the answer has to have `begun` by then, however it came until then. `connect_s`
        bounds this connection in place of the client's own time. A streamed body is read no faster
        than the server takes it.

        Raises ConnectFailed, TooLate or HttpError. Leaving before the answer is whole needs
        `close`.
        """
        endpoint = endpoint_of(url)
        if isinstance(body, bytes):
            request = request_of(endpoint, headers, body)
            return self._exchange(endpoint, request, within_s, seen_through, connect_s)
        head = head_of(endpoint, headers, body.size)
        return self._exchange(endpoint, head, within_s, seen_through, connect_s, body.pieces())

    async def get(self, url: str, headers: Mapping[str, str], *, within_s: float) -> Response:
        """As `post`, of what is there."""
        endpoint = endpoint_of(url)
        request = b"GET" + request_of(endpoint, headers, b"").removeprefix(b"POST")
        return await self._exchange(endpoint, request, within_s, None)

    async def _exchange(
        self,
        endpoint: Endpoint,
        request: bytes,
        within_s: float | None,
        seen_through: SeenThrough | None,
        connect_s: float | None = None,
        rest: Iterator[bytes] | None = None,
    ) -> Response:
        connection = self._take(endpoint) or await self._connect(endpoint, within_s, connect_s)
        response = connection.begin(request, seen_through)
        if within_s is not None:
            response.await_within(within_s)
        try:
            if rest is not None:
                await connection.send(rest)
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

    def _take(self, endpoint: Endpoint) -> Connection | None:
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
    ) -> Connection:
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
    ) -> Connection:
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
                    lambda: Connection(self, endpoint.origin, loop),
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
    ) -> Connection:
        """The proxy looks up names; an address is refused here as ever. Raises OSError."""
        host, port, _ = endpoint.origin
        if (address := address_of(host)) and (words := self._refused(host, address)):
            raise PermissionError(words)
        link = await open_tunnel(proxy, host, port, loop)
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self, endpoint.origin, loop),
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

    def keep(self, connection: Connection) -> None:
        """A connection whose answer is whole."""
        self._busy.discard(connection)
        idle = self._idle.setdefault(connection.origin, [])
        if self._is_closed or len(idle) >= IDLE_CONNECTIONS_MAX:
            connection.abort()
        else:
            idle.append(connection)

    def forget(self, connection: Connection) -> None:
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
