"""A way to a server outside through an HTTP proxy: `CONNECT`, and then TLS with the server itself,
of which the proxy reads nothing."""

import asyncio
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from gateway.catalog.external import address_of, is_local_name

HEAD_BYTES_MAX = 8 * 1024
HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Proxy:
    host: str
    port: int
    credentials: str = field(default="", repr=False)
    """`user:password`, or nothing."""

    @property
    def authorization(self) -> str:
        if not self.credentials:
            return ""
        return f"proxy-authorization: Basic {b64encode(self.credentials.encode()).decode()}\r\n"


def proxy_of(url: str) -> Proxy | None:
    """Of `http://[user:password@]host:port`; None of nothing. Raises ValueError."""
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("is no address of a proxy: write http://proxy.internal:3128")
    pieces = [unquote(piece) for piece in (parts.username, parts.password) if piece is not None]
    return Proxy(parts.hostname, parts.port or 80, ":".join(pieces))


def is_here(host: str) -> bool:
    """Servers of this machine are not asked of a proxy."""
    address = address_of(host)
    return is_local_name(host) or (address is not None and address.is_loopback)


async def open_tunnel(
    proxy: Proxy, host: str, port: int, loop: asyncio.AbstractEventLoop
) -> socket.socket:
    """A connection to that server, on which nothing was said yet. The caller bounds the time.
    Raises OSError."""
    infos = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, address = infos[0]
    with _closed_if_raised(socket.socket(family, kind, protocol)) as link:
        link.setblocking(False)
        await loop.sock_connect(link, address)
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        request = f"CONNECT {where} HTTP/1.1\r\nhost: {where}\r\n{proxy.authorization}\r\n"
        await loop.sock_sendall(link, request.encode("latin-1"))
        _check(await _head(link, loop), proxy)
        return link


async def _head(link: socket.socket, loop: asyncio.AbstractEventLoop) -> bytes:
    """A byte at a time: behind it the server's own may follow, which are TLS's to read."""
    head = b""
    while not head.endswith(HEAD_END):
        byte = await loop.sock_recv(link, 1)
        if not byte or len(head) >= HEAD_BYTES_MAX:
            raise ConnectionError("the proxy gave no answer to CONNECT")
        head += byte
    return head


def _check(head: bytes, proxy: Proxy) -> None:
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    if len(words) < 2 or words[1] != "200":
        status = words[1] if len(words) > 1 else "nonsense"
        raise ConnectionError(f"the proxy {proxy.host}:{proxy.port} answered {status[:20]}")


@contextmanager
def _closed_if_raised(link: socket.socket) -> Iterator[socket.socket]:
    try:
        yield link
    except BaseException:
        link.close()
        raise
