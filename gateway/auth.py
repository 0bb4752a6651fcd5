"""Who calls: from a bearer key to a Principal, cached, with bounded staleness.

A key is known only by its SHA-256. The cache is emptied when the catalog revision moves, so a
revoked key stops within one revision poll; wrong keys are remembered too, for a shorter while,
so that a flood of them costs memory that is bounded and no SQL.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from billing.limits.types import ScopeLimits
from gateway.errors import invalid_key
from routing.types import Clock

CACHE_KEYS_MAX = 10_000
KNOWN_TTL_S = 30.0
UNKNOWN_TTL_S = 2.0


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, and the limits of the three scopes: key, project, organization."""

    organization: str
    project: str
    key: str
    scopes: tuple[ScopeLimits, ...]
    expires_s: float | None = None


Lookup = Callable[[bytes], Awaitable[Principal | None]]


class KeyDirectory:
    """Authenticates bearer keys. `lookup` finds a principal by the key's SHA-256, or None."""

    def __init__(self, lookup: Lookup, clock: Clock) -> None:
        self._lookup = lookup
        self._clock = clock
        self._cache: OrderedDict[bytes, tuple[float, Principal | None]] = OrderedDict()

    async def authenticate(self, authorization: str | None) -> Principal:
        """Raises ApiError 401 for a missing, unknown, revoked or expired key."""
        digest = hashlib.sha256(bearer(authorization).encode()).digest()
        principal = await self._find(digest)
        if principal is None:
            raise invalid_key()
        if principal.expires_s is not None and principal.expires_s <= self._clock():
            raise invalid_key()
        return principal

    def forget(self) -> None:
        """Drop everything cached: something about keys or limits has changed.

        What is being looked up meanwhile may have been read before, and goes to the old cache.
        """
        self._cache = OrderedDict()

    async def _find(self, digest: bytes) -> Principal | None:
        now_s = self._clock()
        cached = self._cache.get(digest)
        if cached and cached[0] > now_s:
            return cached[1]
        cache = self._cache
        principal = await self._lookup(digest)
        ttl_s = KNOWN_TTL_S if principal else UNKNOWN_TTL_S
        cache[digest] = (now_s + ttl_s, principal)
        if len(cache) > CACHE_KEYS_MAX:
            cache.popitem(last=False)
        return principal


def bearer(authorization: str | None) -> str:
    """The token of an `Authorization: Bearer` header; raises ApiError 401 without one."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise invalid_key()
    return token.strip()
