"""What comes before a request is one: its head, bounded in size and time, and refused in words
where HTTP cannot read it. What follows it is the listener's.

A wish for another protocol is passed over, as HTTP lets a server do (RFC 9110, 7.8): clients that
would rather speak HTTP/2 in the clear send one with every request, and their body after it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.call.rate_headers import identity, raw
from gateway.errors import ApiError, bad_request, overloaded
from routing.types import Clock

WAITING_MAX = 64
"""Requests that were sent behind one whose answer is not there yet."""
FULL_RETRY_S = 1.0
SINGLE = (b"authorization", b"x-api-key", b"content-type")
"""Headers that say one thing: of two of them one route would believe the first and another the
last."""


@dataclass(frozen=True, slots=True)
class Heads:
    """`bytes_max` is of a whole head; `timeout_s` is for a whole head, for the first byte of the
    first one, and for what is left of a body whose request is answered. Of connections there are at
    most `connections_max`.
    """

    bytes_max: int
    timeout_s: float
    new_id: Callable[[], str]
    clock: Clock
    connections_max: int = 1 << 20


class HeadProtocol(HttpToolsProtocol):
    heads: Heads

    def connection_made(self, transport: object) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._head_bytes = 0
        self._head_of: object = None
        self._may_be_large = False
        self._wrong: ApiError | None = None
        self._late_s = self.loop.time() + self.heads.timeout_s
        if len(self.connections) > self.heads.connections_max:
            message = f"The gateway has {self.heads.connections_max} connections, all it may have."
            self._refuse(overloaded(message, FULL_RETRY_S))
        else:
            self._close_after(self.heads.timeout_s)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        self._may_be_large = self._head_bytes + len(data) > self.heads.bytes_max
        rest: bytes | memoryview | None = data
        while rest is not None:
            rest = self._read(rest)
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope:
            self._await_rest(len(data))
        else:
            self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Raises ApiError, which the parser hands on as an error of its own."""
        self._wrong = self._mistake()
        if self._wrong is not None:
            raise self._wrong
        super().on_headers_complete()

    def _should_upgrade(self) -> bool:
        """Nothing is made of such a request before it is read again without its wish."""
        return True

    def _read(self, data: bytes | memoryview) -> memoryview | None:
        """Read all of it, or up to the end of a request with a wish: answers what follows that."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as wished:
            return self._without_wish(memoryview(data)[wished.args[0] :])
        except httptools.HttpParserError:
            wrong, self._wrong = self._wrong, None
            self._refuse(wrong or bad_request("This is not HTTP: its request could not be read."))
        return None

    def _without_wish(self, rest: memoryview) -> memoryview | None:
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(bad_request("This server is no proxy: it does not take CONNECT."))
            return None
        lines = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self._read(b"\r\n".join(lines) + b"\r\n\r\n")
        return rest if rest and not self.transport.is_closing() else None

    # --- bounds ----------------------------------------------------------------------------------

    def _mistake(self) -> ApiError | None:
        """What is wrong with a head that HTTP can read."""
        names = [name for name, _ in self.headers]
        hosts = names.count(b"host")
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            return bad_request("HTTP/1.1 asks for one header 'host' in each request.")
        for single in SINGLE:
            if names.count(single) > 1:
                return bad_request(f"The header '{single.decode()}' may be sent once.")
        if self._may_be_large and self._size() > self.heads.bytes_max:
            return self._too_large()
        if len(self.pipeline) >= WAITING_MAX:
            return overloaded("Too many requests wait on this connection.", FULL_RETRY_S)
        return None

    def _size(self) -> int:
        """Of the head as it was sent, but for spaces around values."""
        first = len(self.parser.get_method()) + len(self.url) + len(b"  HTTP/1.1\r\n")
        return first + sum(len(name) + len(value) + 4 for name, value in self.headers) + 2

    def _too_large(self) -> ApiError:
        message = f"The head of the request is larger than {self.heads.bytes_max} bytes."
        return ApiError(431, message, code="request_headers_too_large")

    def _await_rest(self, received: int) -> None:
        """Of a head that is not whole. While an answer is on its way the connection is in use, and
        is not closed for the one behind it. What came with the end of the request before is not
        counted until it is whole."""
        if self._head_of is not self.scope:
            is_behind_another = self._head_of is not None or self.cycle is not None
            self._head_of = self.scope
            self._head_bytes = 0 if is_behind_another else received
            self._late_s = self.loop.time() + self.heads.timeout_s
        else:
            self._head_bytes += received
        if self._head_bytes > self.heads.bytes_max:
            self._refuse(self._too_large())
        elif self.cycle is None or self.cycle.response_complete:
            self._close_after(self._late_s - self.loop.time())

    def _close_after(self, seconds: float) -> None:
        """By the timer of a connection that is kept, which every byte ends."""
        is_begun = self._head_of is not None and self._head_of is self.scope
        self.timeout_keep_alive_task = self.loop.call_later(
            max(0.0, seconds), self._head_is_late if is_begun else self.transport.close
        )

    def _head_is_late(self) -> None:
        self._refuse(ApiError(408, "The head of the request came too slowly."))

    # --- refusals --------------------------------------------------------------------------------

    def _refuse(self, error: ApiError) -> None:
        """Answer what never became a request, and hang up; nothing is said into the midst of
        another answer."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(self._refusal(error))
        self.transport.close()

    def _refusal(self, error: ApiError) -> bytes:
        body, now_s = error.body(), self.heads.clock()
        pairs = [
            *self.server_state.default_headers,
            *raw(identity(self.heads.new_id(), now_s, now_s) | error.headers()),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        head = b"\r\n".join(map(b": ".join, pairs))
        return b"".join((STATUS_LINE[error.status], head, b"\r\n\r\n", body))
