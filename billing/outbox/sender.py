"""Sends one event: to an address that was checked, without redirects, within one bound of time.

Of an answer only the status is read.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address

from billing.outbox.addresses import BadUrl, Target, allowed, target_of

STATUS = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: |\r?\n)")
STATUS_BYTES_MAX = 1024
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Sent:
    """The status that came, or why none did."""

    status: int | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """`networks` may be reached although they are not public, and without TLS."""

    networks: Sequence[str]
    timeout_s: float
    resolve: Resolve
    tls: ssl.SSLContext

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Sent:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._send(target_of(url), headers, body)
        except TimeoutError:
            return Sent(None, f"no answer within {self.timeout_s:g} s")
        except BadUrl as wrong:
            return Sent(None, str(wrong))
        except (OSError, UnicodeError, ssl.SSLError) as error:
            return Sent(None, f"{type(error).__name__}: {error}")

    async def _send(self, target: Target, headers: Mapping[str, str], body: bytes) -> Sent:
        addresses = await self._addresses(target)
        address = allowed(addresses, self.networks, encrypted=target.scheme == "https")
        if address is None:
            return Sent(None, "its address is not public, or it is not https")
        async with posted(target, address, headers, body, self.tls) as reader:
            return await _status(reader)

    async def _addresses(self, target: Target) -> Sequence[str]:
        try:
            return [str(ip_address(target.host))]
        except ValueError:
            return await self.resolve(target.host, target.port)


@asynccontextmanager
async def posted(
    target: Target, address: str, headers: Mapping[str, str], body: bytes, tls: ssl.SSLContext
) -> AsyncIterator[asyncio.StreamReader]:
    """What answers one POST. Its connection goes to `address`, and is closed at the end."""
    is_encrypted = target.scheme == "https"
    reader, writer = await asyncio.open_connection(
        address,
        target.port,
        ssl=tls if is_encrypted else None,
        server_hostname=target.host if is_encrypted else None,
    )
    try:
        writer.write(_request(target, headers, body))
        await writer.drain()
        yield reader
    finally:
        writer.transport.abort()


async def _status(reader: asyncio.StreamReader) -> Sent:
    start = b""
    while len(start) < STATUS_BYTES_MAX and b"\n" not in start:
        part = await reader.read(STATUS_BYTES_MAX - len(start))
        if not part:
            break
        start += part
    matched = STATUS.match(start)
    if matched is None:
        return Sent(None, "it does not answer in HTTP/1.1")
    return Sent(int(matched[1]))


def _request(target: Target, headers: Mapping[str, str], body: bytes) -> bytes:
    all_headers = {
        "host": target.authority,
        "content-type": "application/json",
        "content-length": str(len(body)),
        "user-agent": "sluice-webhooks/1",
        "connection": "close",
        **headers,
    }
    lines = [f"POST {target.path} HTTP/1.1", *(f"{k}: {v}" for k, v in all_headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def resolved(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as this machine has them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]).partition("%")[0] for *_, address in found]
