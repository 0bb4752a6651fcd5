"""What an external pool may reach and what it may send there. Pure; asked wherever a pool is made,
when the fleet is looked at, and for each connection.

Whoever may write a pool names a URL and a variable of the gateway's environment. Unbounded, that
would read any secret of the gateway and any service that only its machine can reach.
"""

import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

Address = IPv4Address | IPv6Address

KEY_PREFIX = "SLUICE_PROVIDER_KEY_"
LOCALHOST = "localhost"
LITELLM, TRITON = "litellm", "triton"
"""Adapters: a process and an environment apart, and Triton's generate extension by our client."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}\.?", re.ASCII)
"""IPv4 as C reads it: up to four decimal, octal or hexadecimal numbers."""
_METADATA = tuple(
    map(
        ip_network,
        (
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure
            "192.0.0.192",  # Oracle
            "fd00:ec2::/32",  # AWS
            "fd20:ce::254",  # Google
        ),
    )
)
_TRANSLATED = tuple(
    (IPv6Network(net), bits)
    for net, bits in (
        ("::/96", 0),
        ("::ffff:0:0:0/96", 0),
        ("64:ff9b::/96", 0),
        ("64:ff9b:1::/96", 0),
        ("2002::/16", 80),
    )
)
"""Networks of IPv6 that hold an address of IPv4, and how many bits stand behind it."""


@dataclass(frozen=True, slots=True)
class ExternalRules:
    """`key_variables` may be sent beside those with the prefix; to `http_hosts` a key may go
    without TLS."""

    key_variables: Collection[str] = ()
    http_hosts: Collection[str] = ()

    def mistakes(self, base_url: str | None, api_key_env: str | None) -> Iterator[tuple[str, str]]:
        """What is wrong with a pool that has these, by key."""
        if base_url is not None and (words := self._url_mistake(base_url, bool(api_key_env))):
            yield "base_url", words
        if api_key_env is not None and (words := self._variable_mistake(api_key_env)):
            yield "api_key_env", words

    def why_unusable(
        self, base_url: str | None, api_key_env: str | None, environment: Mapping[str, str] | None
    ) -> str | None:
        """Why a pool takes no call, or None where nothing is against it. `environment` is where
        its key is, or None where another process holds it."""
        if mistake := next(self.mistakes(base_url, api_key_env), None):
            return ": ".join(mistake)
        if api_key_env is None or environment is None:
            return None
        key = environment.get(api_key_env)
        if not key:
            return f"the variable {api_key_env}, which holds its key, is not set"
        if not (key.isascii() and key.isprintable()):
            return f"the variable {api_key_env} holds what no header can carry"
        return None

    def _variable_mistake(self, name: str) -> str | None:
        if not _VARIABLE.fullmatch(name):
            return "is the name of a variable, for example SLUICE_PROVIDER_KEY_OPENAI, not a key"
        if name in self.key_variables or name.removeprefix(KEY_PREFIX) not in (name, ""):
            return None
        return (
            f"{name} may not be sent: name the variable {KEY_PREFIX}..., or list it in"
            " provider_key_variables of [gateway]"
        )

    def _url_mistake(self, url: str, has_key: bool) -> str | None:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError as wrong:
            return f"is no URL: {wrong}"
        if host is None or parts.scheme not in ("http", "https") or "\\" in url:
            return "is no URL of a server: write https://api.example.com/v1"
        if has_credentials(parts):
            return "has a user or password in it: put the key into a variable, see api_key_env"
        address = address_of(host)
        if address is not None and (words := refused(address)):
            return words
        if not has_key or parts.scheme == "https" or host in self.http_hosts:
            return None
        if is_local_name(host) or (address is not None and address.is_loopback):
            return None
        return (
            "would send the key unencrypted: write https://, or list the host in"
            " provider_http_hosts of [gateway]"
        )


class Reached(Protocol):
    """A pool, as settings and the catalogue have it."""

    @property
    def base_url(self) -> str | None: ...

    @property
    def api_key_env(self) -> str | None: ...

    @property
    def adapter(self) -> str | None: ...


def reach_of(
    pool: Reached, environment: Mapping[str, str]
) -> tuple[str | None, str | None, Mapping[str, str] | None]:
    """What `why_unusable` looks at; the key of a pool that `sluice providers` speaks to is there
    alone."""
    apart = pool.adapter == LITELLM
    return pool.base_url, pool.api_key_env, None if apart else environment


def has_credentials(parts: SplitResult) -> bool:
    return "@" in parts.netloc


def is_local_name(host: str) -> bool:
    return host == LOCALHOST or host.endswith(f".{LOCALHOST}")


def address_of(host: str) -> Address | None:
    """The address that a host is, in whatever form it is written; None for a name."""
    if _NUMBERS.fullmatch(host.lower()):
        try:
            return IPv4Address(socket.inet_aton(host.rstrip(".")))
        except OSError:
            return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def refused(address: Address) -> str | None:
    """Why nothing is sent to an address, or None."""
    for meant in _meant(address):
        if meant.is_link_local or any(meant in network for network in _METADATA):
            return f"{address} is an address of this machine's cloud or link, which no pool may use"
    return None


def refused_connection(host: str, address: Address) -> str | None:
    """The same of an address that a host name was resolved to. A local name has to be local: keys
    go there without TLS."""
    if is_local_name(host) and not address.is_loopback:
        return f"{host} is {address}, which is not this machine"
    return refused(address)


ConnectionRule = Callable[[str, Address], str | None]


def _meant(address: Address) -> Iterator[Address]:
    """The address, and those of IPv4 that one of IPv6 may lead to."""
    yield address
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.teredo is not None:
        yield from address.teredo
    for network, bits in _TRANSLATED:
        if address in network:
            yield IPv4Address(int(address) >> bits & 0xFFFF_FFFF)
