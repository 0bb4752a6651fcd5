"""Names of the Redis keys of money and limits. All keys of one organization share one hash tag."""

from __future__ import annotations

from functools import cache, lru_cache
from zlib import crc32

SHARDS = 64
LAYOUT = 4
"""Version of what scopes, calls and leases look like in Redis. State of another layout is as good
as none: shards count as unprimed, and holds come back as after a Redis that was wiped."""


@lru_cache(10_000)
def shard_of(org: str) -> int:
    return crc32(org.encode()) % SHARDS


@cache
def tag(shard: int) -> str:
    return f"{{s{shard:02d}}}"


@cache
def key_prefix(shard: int) -> str:
    """The prefix of every key whose layout has a version."""
    return f"{tag(shard)}:{LAYOUT}:"


@cache
def epoch_key(shard: int) -> str:
    """String: `<layout>:open:<epoch>` or `<layout>:priming:<epoch>`; all else is unprimed."""
    return f"{tag(shard)}:epoch"


@cache
def usage_key(shard: int) -> str:
    """Stream of `reserved` and `settled` records: fields k, r (request id), p (payload JSON)."""
    return f"{tag(shard)}:usage"


@cache
def due_key(shard: int) -> str:
    """Sorted set of open holds: request id -> ms (Redis time) until which the lease runs. The
    reaper may settle after that."""
    return f"{key_prefix(shard)}due"


@cache
def lapsed_key(shard: int) -> str:
    """String: the leases that are known to have lapsed (see lapsed.lua). It may be lost at any
    time."""
    return f"{key_prefix(shard)}lapsed"


@cache
def scopes_key(shard: int) -> str:
    """Set of the scopes that have a state, so that priming can zero the ones SQL does not name."""
    return f"{key_prefix(shard)}scopes"


@cache
def shard_keys(shard: int) -> tuple[str, str, str, str]:
    """The keys of a shard that admit and settle need, in their order."""
    return due_key(shard), usage_key(shard), epoch_key(shard), lapsed_key(shard)


def call_key(shard: int, rid: str) -> str:
    """Packed: an open hold, and for a while after it the settlement."""
    return f"{key_prefix(shard)}call:{rid}"


def scope_key(shard: int, scope: str) -> str:
    """Packed: money held and spent, open holds, and both buckets of one scope."""
    return f"{key_prefix(shard)}scope:{scope}"


@lru_cache(10_000)
def scope_keys(shard: int, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of all scopes of a call. Those of one API key are mostly the same."""
    return tuple(scope_key(shard, scope) for scope in scopes)


def meter_key(shard: int, meter: str) -> str:
    """One bucket of a meter (packed), or its leases (sorted set: request id -> ms until which the
    lease runs). Expires when idle."""
    return f"{key_prefix(shard)}meter:{meter}"


def past_key(shard: int, scope: str) -> str:
    """Hash: what a scope spent in months before its latest one, YYYYMM -> nano-USD."""
    return f"{key_prefix(shard)}past:{scope}"
