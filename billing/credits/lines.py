"""Publishes the standings of organizations with their credits, and reads them. A call's path needs
no SQL.

The ledger process writes every line that has moved into a hash in Redis, and counts a revision up.
A gateway that remembers a revision reads only the lines that have changed since. A Redis that lost
some lines gets all of them again. A line that is read late is good to count by (see CreditLine).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec
from redis.asyncio import Redis

from billing.credits import store as credits
from billing.credits.credit import CreditLine
from billing.db.engine import Store

LINES_KEY = "sluice:{credits}:lines"
CHANGED_KEY = "sluice:{credits}:changed"
REVISION_KEY = "sluice:{credits}:revision"
OVERLAP_US = 10_000_000
"""A movement may become visible so long after its time; what is read again changes nothing."""
EVERYTHING_EVERY_US = 60_000_000
READ_AT_ONCE = 1_000

_PUBLISH = """
local revision = redis.call('INCR', KEYS[3])
for i = 1, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call('ZADD', KEYS[2], revision, ARGV[i])
end
return revision
"""
_KEYS = (LINES_KEY, CHANGED_KEY, REVISION_KEY)
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(CreditLine)


class CreditPublisher:
    """The one publisher. It remembers the lines that it has written, and when it looked."""

    def __init__(self, redis: Redis, store: Store) -> None:
        self._redis: Any = redis
        self._store = store
        self._published: dict[str, CreditLine] = {}
        self._revision: int | None = None
        self._looked_us = 0
        self._saw_all_us = 0

    async def publish(self, now_us: int) -> int:
        """Write the lines that have moved since the last look. Returns how many there were."""
        revision = await self._redis.get(REVISION_KEY)
        if revision is None or int(revision) != self._revision:
            self._published, self._saw_all_us = {}, 0
        since_us = self._looked_us - OVERLAP_US
        sees_all = now_us - self._saw_all_us >= EVERYTHING_EVERY_US
        lines = await asyncio.to_thread(self._lines, 0 if sees_all else since_us)
        news = {org: line for org, line in lines.items() if self._published.get(org) != line}
        if news or self._revision is None or revision is None:
            arguments = [
                part for org, line in news.items() for part in (org, _ENCODER.encode(line))
            ]
            self._revision = int(await self._redis.eval(_PUBLISH, len(_KEYS), *_KEYS, *arguments))
            self._published |= news
        self._looked_us = now_us
        self._saw_all_us = now_us if sees_all else self._saw_all_us
        return len(news)

    def _lines(self, moved_since_us: int) -> dict[str, CreditLine]:
        with self._store.read() as conn:
            return credits.lines(conn, moved_since_us=moved_since_us)


async def read_lines(redis: Redis, known_revision: int) -> tuple[int, list[CreditLine]]:
    """The revision now, and the lines that have changed since the known revision (0: none is
    known).

    A revision of 0 says that nothing was published yet.
    """
    client: Any = redis
    revision = int(await client.get(REVISION_KEY) or 0)
    if revision == known_revision:
        return revision, []
    if revision < known_revision or not known_revision:  # another Redis than the one before
        return revision, _decoded((await client.hgetall(LINES_KEY)).values())
    orgs = await client.zrangebyscore(CHANGED_KEY, f"({known_revision}", "+inf")
    raw: list[bytes | None] = []
    for start in range(0, len(orgs), READ_AT_ONCE):
        raw += await client.hmget(LINES_KEY, orgs[start : start + READ_AT_ONCE])
    return revision, _decoded(raw)


def _decoded(raw: Iterable[bytes | None]) -> list[CreditLine]:
    return [_DECODER.decode(line) for line in raw if line is not None]
