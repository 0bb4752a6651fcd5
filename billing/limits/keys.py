"""Names of the Redis keys of money and limits. All keys of one organization share one hash tag."""

from __future__ import annotations

from zlib import crc32

SHARDS = 64


def shard_of(org: str) -> int:
    return crc32(org.encode()) % SHARDS


def tag(shard: int) -> str:
    return f"{{s{shard:02d}}}"


def epoch_key(shard: int) -> str:
    """String: `open:<epoch>` or `priming:<epoch>`; missing is unprimed."""
    return f"{tag(shard)}:epoch"


def usage_key(shard: int) -> str:
    """Stream of `reserved` and `settled` records: fields k, r (request id), p (payload JSON)."""
    return f"{tag(shard)}:usage"


def due_key(shard: int) -> str:
    """Sorted set of open holds: request id -> ms (Redis time) after which the reaper may settle."""
    return f"{tag(shard)}:due"


def scopes_key(shard: int) -> str:
    """Set of the scopes that have money, so that priming can zero the ones SQL does not name."""
    return f"{tag(shard)}:scopes"


def hold_key(shard: int, rid: str) -> str:
    """Hash of an open hold; it exists exactly as long as the hold is open."""
    return f"{tag(shard)}:hold:{rid}"


def done_key(shard: int, rid: str) -> str:
    """String that a settled hold leaves behind for a while, so that settling again is known."""
    return f"{tag(shard)}:done:{rid}"


def scope_key(shard: int, scope: str) -> str:
    """Hash: money held and spent, and the state of both buckets, of one scope."""
    return f"{tag(shard)}:scope:{scope}"


def concurrency_key(shard: int, scope: str) -> str:
    """Sorted set of leases: request id -> ms until which it counts as running."""
    return f"{tag(shard)}:conc:{scope}"


TOTAL_FIELD = "t"


def month_field(month: str) -> str:
    return f"m{month}"
