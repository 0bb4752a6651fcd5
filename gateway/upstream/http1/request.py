"""What is sent: where a URL leads, and the bytes of a request. Raises ConnectFailed for what HTTP
cannot carry, so nothing smuggles a line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

from gateway.catalog.external import has_credentials
from gateway.upstream.http1.errors import ConnectFailed


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a URL leads, and the first lines of every request to it."""

    origin: tuple[str, int, bool]
    """The host, the port and whether TLS is spoken: what connections have in common."""
    head: bytes


class StreamedBody(Protocol):
    """A body that is never held in one piece: `size` bytes, made anew for each request."""

    @property
    def size(self) -> int: ...

    def pieces(self) -> Iterator[bytes]: ...


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


def request_of(endpoint: Endpoint, headers: Mapping[str, str], body: bytes) -> bytes:
    return b"".join((*_heads(endpoint, headers, len(body)), body))


def head_of(endpoint: Endpoint, headers: Mapping[str, str], body_bytes: int) -> bytes:
    """What comes before a body of so many bytes."""
    return b"".join(_heads(endpoint, headers, body_bytes))


def _heads(endpoint: Endpoint, headers: Mapping[str, str], body_bytes: int) -> tuple[bytes, bytes]:
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    lines.append(f"content-length: {body_bytes}\r\n\r\n")
    return endpoint.head, _head_of(headers, lines)


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
