"""The server's side of a connection: uvicorn's protocol, with bounds on clients that do not read,
and what a call need not pay for: see the extensions, of which ASGI can do without any.

What is written and not taken is buffered up to `write_buffer_bytes` per connection (a message may
go beyond); then `send` waits. Whoever gives a client up hangs up by the scope's extension, so that
the buffer goes with it; a client that has stopped acknowledging altogether is left to the kernel.
"""

import asyncio
import socket
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    RequestResponseCycle,
)

from gateway.server.heads import HeadProtocol, Heads

HANG_UP = "sluice.hang_up"
"""The extension of an ASGI scope that ends its connection at once, by `now`."""
BODY = "sluice.body"
"""The extension whose `whole` takes the scope and gives the body, unread before, if all of it is
here: nothing is waited for, so that no timer is needed. Else None, and `receive` has it."""
WHOLE = "sluice.whole"
"""The extension whose `has_left` takes the scope and an answer in one piece (its status, the lines
of its head with the body's length among them, its body) and writes it at once. False where it did
not: then `send` has it."""
PIECE = "sluice.piece"
"""The extension whose `has_left` takes the scope and some of the body of a stream that has begun,
and writes it at once; False likewise."""
LEAVING = "sluice.leaving"
"""The extension whose `tell` has a callback called once the connection is lost, until `forget`:
for a fraction of what a task costs that waits in `receive`."""

LossListener = Callable[[], None]
BODILESS = (204, 304)


class BoundedProtocol(HeadProtocol):
    """One connection. `protocol` makes a class of it with the bounds of a gateway."""

    write_buffer_bytes: int
    unread_ms: int

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=self.write_buffer_bytes)
        connection = transport.get_extra_info("socket")
        if connection is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self.unread_ms)
        self._is_lost = False
        self._whole_scope: object = None
        self._idle_since_s: float | None = None
        self._idle_look: asyncio.TimerHandle | None = None
        self._loss_listeners: set[LossListener] = set()
        self._extensions: dict[str, dict[object, object]] = {
            HANG_UP: {"now": transport.abort},
            BODY: {"whole": self._whole_body},
            WHOLE: {"has_left": self._has_left},
            PIECE: {"has_left": self._piece_has_left},
            LEAVING: {"tell": self._tell, "forget": self._loss_listeners.discard},
        }

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._is_lost = True
        if self._idle_look is not None:
            self._idle_look.cancel()
        for listener in tuple(self._loss_listeners):
            listener()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = self._extensions

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._whole_scope = self.scope

    def data_received(self, data: bytes) -> None:
        self._idle_since_s = None
        super().data_received(data)

    def on_response_complete(self) -> None:
        """A connection that is kept has one timer, looked at when it is due, where uvicorn
        makes one for each answer."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since_s = self.loop.time()
        if self.cycle.more_body:
            self.loop.call_later(self.heads.timeout_s, self._look_at_rest, self.cycle)
        if self._idle_look is None:
            self._look_again_in(self.timeout_keep_alive)

    def _look_at_rest(self, cycle: RequestResponseCycle) -> None:
        """Of a body whose request was answered before it was whole: it is read and forgotten,
        for most clients read an answer only once they have sent all, but not for ever."""
        if self.cycle is cycle and self._whole_scope is not cycle.scope:
            self.transport.close()

    def _look_again_in(self, seconds: float) -> None:
        self._idle_look = self.loop.call_later(seconds, self._look_at_idle)

    def _look_at_idle(self) -> None:
        since_s = self._idle_since_s
        idle_s = 0.0 if since_s is None else self.loop.time() - since_s
        if idle_s >= self.timeout_keep_alive:
            self.timeout_keep_alive_handler()
        else:
            self._look_again_in(self.timeout_keep_alive - idle_s)

    def _whole_body(self, scope: object) -> bytes | None:
        cycle = self.cycle
        if cycle.scope is not scope or cycle.more_body:
            return None
        if cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        return body

    def _has_left(self, scope: object, status: int, head: bytes, body: bytes) -> bool:
        cycle = self.cycle
        if cycle.scope is not scope or cycle.response_started or not cycle.keep_alive:
            return False
        if cycle.access_log or cycle.disconnected or cycle.flow.write_paused:
            return False
        if cycle.scope["method"] == "HEAD" or status in BODILESS:
            return False
        more = [b"%b: %b\r\n" % pair for pair in cycle.default_headers]
        cycle.transport.write(b"".join((STATUS_LINE[status], *more, head, b"\r\n", body)))
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        cycle.on_response()
        return True

    def _piece_has_left(self, scope: object, piece: bytes) -> bool:
        cycle = self.cycle
        if cycle.scope is not scope or cycle.chunked_encoding is not True or not piece:
            return False
        if cycle.response_complete or cycle.disconnected or cycle.flow.write_paused:
            return False
        if cycle.scope["method"] == "HEAD":
            return False
        cycle.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return True

    def _tell(self, listener: LossListener) -> None:
        """Reading goes on, as `receive` has it: a connection that is not read is not seen to
        be lost."""
        self.flow.resume_reading()
        if self._is_lost:
            self.loop.call_soon(listener)
        else:
            self._loss_listeners.add(listener)


def protocol(
    *, write_buffer_bytes: int, unread_timeout_s: float, heads: Heads
) -> type[BoundedProtocol]:
    """What uvicorn makes a connection of."""
    bounds = {
        "heads": heads,
        "write_buffer_bytes": write_buffer_bytes,
        "unread_ms": round(unread_timeout_s * 1000),
    }
    return type("ConfiguredProtocol", (BoundedProtocol,), bounds)
