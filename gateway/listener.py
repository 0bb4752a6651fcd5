"""The server's side of a connection: uvicorn's protocol, with bounds on clients that do not read,
and what a call need not pay for: see the extensions, of which ASGI can do without any.

What is written and not taken is buffered up to `write_buffer_bytes` per connection (a message may
go beyond); then `send` waits. Whoever gives a client up hangs up by the scope's extension, so that
the buffer goes with it; a client that has stopped acknowledging altogether is left to the kernel.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

HANG_UP = "sluice.hang_up"
"""The extension of an ASGI scope that ends its connection at once, by `now`."""
BODY = "sluice.body"
"""The extension whose `whole` takes the scope and gives the body, unread before, if all of it is
here: nothing is waited for, so that no timer is needed. Else None, and `receive` has it."""
LEAVING = "sluice.leaving"
"""The extension whose `tell` has a callback called once the connection is lost, until `forget`:
for a fraction of what a task costs that waits in `receive`."""

Told = Callable[[], None]
Message = dict[str, Any]
LENGTH = b"content-length"
NOT_PLAIN = frozenset((b"connection", b"transfer-encoding"))


def protocol(*, write_buffer_bytes: int, unread_timeout_s: float) -> type[HttpToolsProtocol]:
    """What uvicorn makes a connection of."""
    unread_ms = round(unread_timeout_s * 1000)

    class BoundedProtocol(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=write_buffer_bytes)
            connection = transport.get_extra_info("socket")
            if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)
            self._is_lost = False
            self._told: set[Told] = set()
            self._extensions: dict[str, dict[object, object]] = {
                HANG_UP: {"now": transport.abort},
                BODY: {"whole": self._whole_body},
                LEAVING: {"tell": self._tell, "forget": self._told.discard},
            }

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._is_lost = True
            for told in tuple(self._told):
                told()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["extensions"] = self._extensions

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
            super()._start_asgi_task(cycle, _AtOnce(cycle, app))

        def _whole_body(self, scope: object) -> bytes | None:
            cycle = self.cycle
            if cycle.scope is not scope or cycle.more_body:
                return None
            if cycle.disconnected or cycle.waiting_for_100_continue:
                return None
            body, cycle.body = bytes(cycle.body), bytearray()
            cycle.message_event.clear()
            return body

        def _tell(self, told: Told) -> None:
            """Reading goes on, as `receive` has it: a connection that is not read is not seen to
            be lost."""
            self.flow.resume_reading()
            if self._is_lost:
                self.loop.call_soon(told)
            else:
                self._told.add(told)

    return BoundedProtocol


class _AtOnce:
    """An application whose answers leave in one write if they are whole: of such a one the head is
    held back until its body is there, and checked as one. The pieces of a stream are written as
    they are; everything else is sent by uvicorn."""

    __slots__ = ("_app", "_cycle", "_head")

    def __init__(self, cycle: RequestResponseCycle, app: Callable[..., Awaitable[None]]) -> None:
        self._app = app
        self._cycle = cycle
        self._head: Message | None = None

    def __call__(self, scope: object, receive: object, send: object) -> Awaitable[None]:
        return self._app(scope, receive, self._send)

    async def _send(self, message: Message) -> None:
        if self._is_next_piece(message):
            body = message["body"]
            self._cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
            return
        head, self._head = self._head, None
        if head is None:
            if self._may_be_plain(message):
                self._head = message
                return
        elif self._has_left(head, message):
            return
        else:
            await self._cycle.send(head)  # type: ignore[arg-type]
        await self._cycle.send(message)  # type: ignore[arg-type]

    def _is_next_piece(self, message: Message) -> bool:
        """Some of a body of unknown length, to a client that takes it."""
        cycle = self._cycle
        return (
            cycle.chunked_encoding is True
            and bool(message.get("more_body") and message["body"])
            and not (cycle.response_complete or cycle.disconnected or cycle.flow.write_paused)
            and cycle.scope["method"] != "HEAD"
        )

    def _may_be_plain(self, message: Message) -> bool:
        """A head that says how long its body is, on a connection that is kept."""
        cycle = self._cycle
        if cycle.response_started or not cycle.keep_alive or cycle.access_log:
            return False
        if message["type"] != "http.response.start" or cycle.scope["method"] == "HEAD":
            return False
        return _length_at(tuple([name for name, _ in message["headers"]])) is not None

    def _has_left(self, head: Message, message: Message) -> bool:
        cycle = self._cycle
        body = message.get("body", b"")
        pairs = [*cycle.default_headers, *head["headers"]]
        if message.get("more_body") or not _is_exact(pairs, len(body)):
            return False
        if cycle.disconnected or cycle.flow.write_paused or not cycle.keep_alive:
            return False
        lines = map(b": ".join, pairs)
        written = (STATUS_LINE[head["status"]], b"\r\n".join(lines), b"\r\n\r\n", body)
        cycle.transport.write(b"".join(written))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        cycle.on_response()
        return True


def _is_exact(pairs: list[tuple[bytes, bytes]], size: int) -> bool:
    """Headers that HTTP can carry and that ask for nothing special, with the body's true length
    among them."""
    names, values = zip(*pairs, strict=True)
    length_at = _length_at(names)
    return (
        length_at is not None
        and values[length_at] == b"%d" % size
        and HEADER_VALUE_RE.search(b"".join(values)) is None
    )


@lru_cache(maxsize=256)
def _length_at(names: tuple[bytes, ...]) -> int | None:
    """Where one length is said among names that are plain; most answers have the same names."""
    said = b"".join(names)
    if said != said.lower() or HEADER_RE.search(said) or names.count(LENGTH) != 1:
        return None
    return None if NOT_PLAIN.intersection(names) else names.index(LENGTH)
