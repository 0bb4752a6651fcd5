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
    """Set of the scopes that have a money hash, so that priming can zero the forgotten ones."""
    return f"{tag(shard)}:scopes"


def hold_key(shard: int, rid: str) -> str:
    return f"{tag(shard)}:hold:{rid}"


def rate_key(shard: int, scope: str) -> str:
    return f"{tag(shard)}:rate:{scope}"


def concurrency_key(shard: int, scope: str) -> str:
    return f"{tag(shard)}:conc:{scope}"


def money_key(shard: int, scope: str) -> str:
    return f"{tag(shard)}:money:{scope}"


def month_field(month: str) -> str:
    return f"m{month}"
