"""The server's side of a connection: uvicorn's protocol, with bounds on clients that do not read.

What is written and not taken is buffered up to `write_buffer_bytes` per connection (a message may
go beyond); then `send` waits. Whoever gives a client up hangs up by the scope's extension, so that
the buffer goes with it; a client that has stopped acknowledging altogether is left to the kernel.
"""

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HANG_UP = "sluice.hang_up"
"""The extension of an ASGI scope that ends its connection at once."""


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

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self.scope["extensions"] = {HANG_UP: {"now": self.transport.abort}}

    return BoundedProtocol
