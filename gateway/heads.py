"""What comes before a request is one: its head, bounded in size and time, and refused in words
where HTTP cannot read it. What follows it is the listener's.

A wish for another protocol is passed over, as HTTP lets a server do (RFC 9110, 7.8): clients that
would rather speak HTTP/2 in the clear send one with every request, and their body after it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.errors import ApiError, bad_request
from gateway.wire.headers import identity, raw
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class Heads:
    """`bytes_max` is of a head that comes in several pieces; one that comes at once is bounded by
    what is read at once. `timeout_s` is for a whole head, and for the first byte of the first one.
    """

    bytes_max: int
    timeout_s: float
    new_id: Callable[[], str]
    clock: Clock


class HeadProtocol(HttpToolsProtocol):
    heads: Heads

    def connection_made(self, transport: object) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._head_bytes = 0
        self._head_of: object = None
        self._late_s = self.loop.time() + self.heads.timeout_s
        self._close_after(self.heads.timeout_s)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as wished:
            self._stay(data[wished.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(bad_request("This is not HTTP: its request could not be read."))
            return
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope:
            self._await_rest(len(data))

    def _should_upgrade(self) -> bool:
        """Nothing is made of such a request before it is read again without its wish."""
        return True

    def _stay(self, rest: bytes) -> None:
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._refuse(bad_request("This server is no proxy: it does not take CONNECT."))
            return
        lines = [b"%b %b HTTP/%b" % (method, self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    # --- bounds ----------------------------------------------------------------------------------

    def _await_rest(self, received: int) -> None:
        """Of a head that is not whole. While an answer is on its way the connection is in use, and
        is not closed for the one behind it."""
        if self._head_of is not self.scope:
            self._head_of, self._head_bytes = self.scope, 0
            self._late_s = self.loop.time() + self.heads.timeout_s
        self._head_bytes += received
        if self._head_bytes > self.heads.bytes_max:
            message = f"The head of the request is larger than {self.heads.bytes_max} bytes."
            self._refuse(ApiError(431, message, code="request_headers_too_large"))
        elif self.cycle is None or self.cycle.response_complete:
            self._close_after(self._late_s - self.loop.time())

    def _close_after(self, seconds: float) -> None:
        """By the timer of a connection that is kept, which every byte ends."""
        self.timeout_keep_alive_task = self.loop.call_later(
            max(0.0, seconds), self._head_is_late if self._head_bytes else self.transport.close
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
            *raw(identity(self.heads.new_id(), now_s, now_s)),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        head = b"\r\n".join(map(b": ".join, pairs))
        return b"".join((STATUS_LINE[error.status], head, b"\r\n\r\n", body))
