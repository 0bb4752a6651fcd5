"""Where events may be sent to: public addresses, and networks that an operator allows.

Pure. A name is resolved once, and the connection goes to the address that was checked here, so a
name that resolves otherwise a moment later leads nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple
from urllib.parse import urlsplit

URL_CHARS_MAX = 2000
TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 behind a translator (RFC 6052)."""
PORTS = {"https": 443, "http": 80}


class BadUrl(ValueError):
    """Nothing is sent to such a URL."""


class Target(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str) -> Target:
    """Raises BadUrl."""
    if len(url) > URL_CHARS_MAX or not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        raise BadUrl("it is a URL in ASCII, without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as wrong:
        raise BadUrl(str(wrong)) from wrong
    if parts.scheme not in PORTS or not parts.hostname:
        raise BadUrl("it begins with https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise BadUrl("it has no user and no password")
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    return Target(parts.scheme, parts.hostname, port or PORTS[parts.scheme], path + query)


def allowed(addresses: Iterable[str], networks: Sequence[str], *, encrypted: bool) -> str | None:
    """The first address that may be reached. One that is not public, or is not reached by TLS, must
    be in one of `networks`."""
    for text in addresses:
        address = ip_address(text)
        inner = _inner(address)
        named = any(each in ip_network(net) for each in (address, inner) for net in networks)
        if named or (encrypted and _is_public(address) and _is_public(inner)):
            return text
    return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not address.is_multicast


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that an IPv6 one stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)
