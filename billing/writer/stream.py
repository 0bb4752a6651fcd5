"""The usage streams of all shards as one consumer of their group.

Reads, claims, acknowledges and trims; decides nothing. An entry is acknowledged only after SQL
has it, and trimmed only after it was acknowledged, so a killed reader loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from billing.ledger.booking import Record
from billing.limits.keys import SHARDS, usage_key

GROUP = "ledger"
READ_MAX = 250  # entries a stream and read: 16,000 of all of them
_SHARD_OF_KEY = {usage_key(shard).encode(): shard for shard in range(SHARDS)}


@dataclass(frozen=True, slots=True)
class Pending:
    """An entry that was delivered and not acknowledged yet."""

    shard: int
    entry: str
    idle_ms: int
    deliveries: int


class GroupMissing(Exception):
    """A stream or its group is missing: Redis was emptied."""


class UsageStreams:
    """64 streams, one group, one consumer name."""

    def __init__(self, redis: Redis, consumer: str) -> None:
        self._redis: Any = redis
        self._consumer = consumer

    async def ensure_groups(self) -> None:
        """Make the missing groups. They read from the beginning."""
        pipe = self._redis.pipeline(transaction=False)
        for shard in range(SHARDS):
            pipe.xgroup_create(usage_key(shard), GROUP, id="0", mkstream=True)
        for answer in await pipe.execute(raise_on_error=False):
            if isinstance(answer, ResponseError) and "BUSYGROUP" in str(answer):
                continue
            if isinstance(answer, Exception):
                raise answer

    async def read_new(self, block_ms: int | None) -> list[Record]:
        """Entries that no consumer has read yet. With `block_ms` it waits so long for news. Raises
        GroupMissing."""
        streams = {usage_key(shard): ">" for shard in range(SHARDS)}
        try:
            answer = await self._redis.xreadgroup(
                GROUP, self._consumer, streams, count=READ_MAX, block=block_ms
            )
        except ResponseError as error:
            raise _translated(error) from error
        return _records(answer)

    async def pending(self, limit: int) -> list[Pending]:
        """Entries that were delivered to any consumer and not acknowledged, the oldest of each
        shard first."""
        pipe = self._redis.pipeline(transaction=False)
        for shard in range(SHARDS):
            pipe.xpending_range(usage_key(shard), GROUP, min="-", max="+", count=limit)
        answers = await _execute(pipe)
        return [
            Pending(
                shard,
                row["message_id"].decode(),
                row["time_since_delivered"],
                row["times_delivered"],
            )
            for shard, rows in enumerate(answers)
            for row in rows
        ]

    async def claim(self, pending: Sequence[Pending]) -> list[Record]:
        """Take entries over, and count one more delivery. Entries that were trimmed away are
        forgotten."""
        by_shard: dict[int, list[str]] = {}
        for item in pending:
            by_shard.setdefault(item.shard, []).append(item.entry)
        pipe = self._redis.pipeline(transaction=False)
        for shard, entries in by_shard.items():
            pipe.xclaim(usage_key(shard), GROUP, self._consumer, 0, entries)
        records = []
        trimmed: dict[int, list[str]] = {}
        for (shard, entries), rows in zip(by_shard.items(), await _execute(pipe), strict=True):
            by_entry = {row[0].decode(): row[1] for row in rows if row and row[1]}
            records += [_record(shard, entry, fields) for entry, fields in by_entry.items()]
            trimmed[shard] = [entry for entry in entries if entry not in by_entry]
        await self.acknowledge(trimmed)
        return records

    async def acknowledge(self, entries: dict[int, list[str]]) -> None:
        pipe = self._redis.pipeline(transaction=False)
        for shard, ids in entries.items():
            if ids:
                pipe.xack(usage_key(shard), GROUP, *ids)
        await _execute(pipe)

    async def trim(self, oldest: dict[int, str]) -> None:
        """Delete the entries before these."""
        pipe = self._redis.pipeline(transaction=False)
        for shard, entry in oldest.items():
            pipe.xtrim(usage_key(shard), minid=entry, approximate=False)
        await _execute(pipe)


async def _execute(pipe: Any) -> list[Any]:
    try:
        answers: list[Any] = await pipe.execute()
    except ResponseError as error:
        raise _translated(error) from error
    return answers


def _translated(error: ResponseError) -> Exception:
    return GroupMissing(str(error)) if "NOGROUP" in str(error) else error


def _records(answer: Any) -> list[Record]:
    streams: Iterable[Any] = answer.items() if isinstance(answer, dict) else answer or ()
    return [
        _record(_SHARD_OF_KEY[key], entry.decode(), fields)
        for key, rows in streams
        for entry, fields in rows
        if fields
    ]


def _record(shard: int, entry: str, fields: dict[bytes, bytes]) -> Record:
    """An entry as a record. One without fields is malformed, which shows when it is booked."""
    return Record(
        shard=shard,
        entry=entry,
        kind=fields.get(b"k", b"").decode(errors="replace"),
        rid=fields.get(b"r", b"").decode(errors="replace"),
        payload=fields.get(b"p", b""),
    )
