"""Who calls: from a bearer key to a Principal, cached, with bounded staleness.

A key is known only by the SHA-256 of its secret. What the directory knows of keys is forgotten when
the catalog revision moves, so a revoked key stops within one revision poll. The digests of all
secrets are kept in memory: a flood of wrong keys, however various, costs a set's look-up each and
not one statement of SQL.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from billing.limits.types import ScopeLimits
from gateway.errors import QuotaStatus, invalid_key, missing_key, organization_frozen
from gateway.limits.budgets import UNBUDGETED, KeyBudgets
from routing.types import EVERYTHING, Clock, Leave

CACHE_KEYS_MAX = 10_000
CACHE_TTL_S = 30.0
CLOCK_SKEW_US = 3_600_000_000
"""A secret made by another gateway may bear a time this much before ours."""


@dataclass(frozen=True, slots=True)
class Narrow:
    """Limits within the scopes of a principal: of models by name, and of whichever end user, where
    the scope still lacks the digest of the user. `has_users_apart`: some end user has its own."""

    models: Mapping[str, tuple[ScopeLimits, ...]] = field(default_factory=dict)
    every_user: tuple[ScopeLimits, ...] = ()
    has_users_apart: bool = False

    @property
    def asks_for_user(self) -> bool:
        """A limit that is evaded by leaving out a field is none."""
        return bool(self.every_user) or self.has_users_apart


ANY = Narrow()


class OutageMode(StrEnum):
    """What becomes of calls while the limiter is away."""

    LOCAL = "local"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class OutageRule:
    """`cap_nanousd` is what an organization may owe to one gateway, None: as the settings say."""

    mode: OutageMode
    cap_nanousd: int | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, what it may use, and the limits of its scopes: key, project, organization."""

    organization: str
    project: str
    key: str
    scopes: tuple[ScopeLimits, ...]
    expires_s: float | None = None
    is_active: bool = True
    leave: Leave = EVERYTHING
    narrow: Narrow = ANY
    outage: OutageRule = OutageRule(OutageMode.DENY)
    may_owe_nanousd: int | None = None
    """The most its organization may owe beyond its credits; None is whatever it comes to."""
    quota_status: QuotaStatus = QuotaStatus.TOO_MANY_REQUESTS
    budgets: KeyBudgets = UNBUDGETED
    tier: str = ""
    """Of its organization, as the operator wrote it; empty where there is none."""


class Keys(Protocol):
    """Where keys are kept. Both raise ApiError 503 while it is out of reach."""

    async def find(self, digest: bytes) -> Principal | None:
        """By the SHA-256 of a secret; None if there is no such key, or it is revoked."""
        ...

    async def secrets_since(self, created_us: int) -> tuple[int, frozenset[bytes]]:
        """Digests of the secrets made since then, and when the last of all was made."""
        ...


class KeyDirectory:
    """Authenticates bearer keys."""

    def __init__(self, keys: Keys, clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._cache: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()
        self._digests: set[bytes] = set()
        self._latest_us = 0
        self._changes = 1
        self._changes_read = 0
        self._reading = asyncio.Lock()

    async def authenticate(self, authorization: str | None) -> Principal:
        """Raises ApiError: 401 for a missing, unknown, revoked or expired key, 403 for a frozen
        organization, 503 while keys cannot be read."""
        digest = hashlib.sha256(bearer(authorization).encode()).digest()
        principal = await self._find(digest)
        if principal is None:
            raise invalid_key()
        if principal.expires_s is not None and principal.expires_s <= self._clock():
            raise invalid_key()
        if not principal.is_active:
            raise organization_frozen()
        return principal

    def forget(self) -> None:
        """Drop everything cached: something about keys or limits has changed.

        What is being looked up meanwhile may have been read before, and goes to the old cache.
        """
        self._cache = OrderedDict()
        self._changes += 1

    async def _find(self, digest: bytes) -> Principal | None:
        now_s = self._clock()
        cached = self._cache.get(digest)
        if cached and cached[0] > now_s:
            return cached[1]
        if not await self._exists(digest):
            return None
        cache = self._cache
        principal = await self._keys.find(digest)
        if principal is not None:
            cache[digest] = (now_s + CACHE_TTL_S, principal)
            if len(cache) > CACHE_KEYS_MAX:
                cache.popitem(last=False)
        return principal

    async def _exists(self, digest: bytes) -> bool:
        """Whether a secret was ever made; the newest are read only after something changed."""
        if digest not in self._digests and self._changes_read != self._changes:
            async with self._reading:
                if self._changes_read != self._changes:
                    await self._read_newest()
        return digest in self._digests

    async def _read_newest(self) -> None:
        """Secrets are only ever added: one that ended is refused by what `find` says of it."""
        changes = self._changes
        since_us = max(0, self._latest_us - CLOCK_SKEW_US)
        self._latest_us, digests = await self._keys.secrets_since(since_us)
        self._digests |= digests
        self._changes_read = changes


def bearer(authorization: str | None) -> str:
    """The token of an `Authorization: Bearer` header; raises ApiError 401 without one."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise missing_key()
    return token.strip()
