"""The waiting room: the callers that wait for a replica, by pool, kept in Redis.

Gateways enter and leave. The controller reads the depth, which is the demand that starts a cold
pool. There is one sorted set per pool. A member is a request id, its score is the deadline in
milliseconds of **Redis' own clock**. Callers pass how long they wait, so that no other clock
decides. Callers of a tier other than the default are in a set of that tier, too. Every look drops
entries past their deadline, so the callers of a killed gateway vanish with their deadlines. The
room of a pool holds at most `bound` callers.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis.asyncio import Redis
from redis.exceptions import RedisError

from routing.types import Tier
from workers.autoscaling.demand import Due, TierQueue

log = logging.getLogger(__name__)

_ENTER = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return -1 end
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
if KEYS[2] then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
end
return redis.call('ZRANK', KEYS[1], ARGV[1])
"""

_DEPTH = """
local t = redis.call('TIME')
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', t[1] * 1000 + math.floor(t[2] / 1000))
return math.max(redis.call('ZCARD', KEYS[1]), redis.call('EXISTS', KEYS[2]))
"""

_DUE = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local count = redis.call('ZCARD', KEYS[1])
local step = math.max(1, math.ceil(count / tonumber(ARGV[1])))
local due = {}
for place = 0, count - 1, step do
  local first = redis.call('ZRANGE', KEYS[1], place, place, 'WITHSCORES')
  due[#due + 1] = math.min(place + step, count)
  due[#due + 1] = math.floor(first[2] - now)
end
return due
"""
_TIERS = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local counts = {}
for place, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  counts[place] = redis.call('ZCARD', key)
end
return counts
"""
NAMED_TIERS = tuple(tier for tier in Tier if tier is not Tier.DEFAULT)
"""Those that have a set of their own."""
DUE_MAX = 16
"""Groups of callers whose deadlines are told apart. A group has the deadline of its first one."""


class WaitingRoomFull(Exception):
    """The room of this pool is full, with `waiting` callers."""

    def __init__(self, pool: str, waiting: int) -> None:
        super().__init__(f"{waiting} callers already wait for pool {pool}")
        self.waiting = waiting


def room_key(pool: str) -> str:
    return f"sluice:wait:{pool}"


def wanted_key(pool: str) -> str:
    """The key that marks a pool as wanted while a caller would have waited and could not. It is in
    the slot of the room."""
    return f"{{{room_key(pool)}}}:wanted"


def tier_key(pool: str, tier: Tier) -> str:
    """The key of those of one tier. It is in the slot of the room."""
    return f"{{{room_key(pool)}}}:{tier}"


class WaitingRoom:
    """Callers that wait for a replica, by pool. All methods raise `redis.RedisError` on outage."""

    def __init__(self, redis: Redis, *, bound: int = 10_000) -> None:
        self._redis = redis
        self._bound = bound
        self._enter = redis.register_script(_ENTER)
        self._depth = redis.register_script(_DEPTH)
        self._due = redis.register_script(_DUE)
        self._tiers = redis.register_script(_TIERS)

    async def enter(self, pool: str, rid: str, *, wait_ms: int, tier: Tier = Tier.DEFAULT) -> int:
        """Wait for at most `wait_ms`. Returns the position: 0 is the earliest deadline.

        Entering again sets a new deadline. Raises WaitingRoomFull.
        """
        keys = [room_key(pool)] + ([tier_key(pool, tier)] if tier in NAMED_TIERS else [])
        position = await self._enter(keys=keys, args=[rid, wait_ms, self._bound])
        if position < 0:
            raise WaitingRoomFull(pool, self._bound)
        return int(position)

    async def want(self, pool: str, *, for_ms: int) -> None:
        """Mark a pool as wanted for so long. Nobody waits, but a caller would have, had there been
        time. The room does not count as empty meanwhile, so that a caller that comes back later
        does not find the pool cold again."""
        await self._redis.set(wanted_key(pool), 1, px=for_ms)

    async def leave(self, pool: str, rid: str) -> None:
        """Stop waiting. Leaving twice, or after the deadline, is no error."""
        async with self._redis.pipeline(transaction=True) as pipeline:
            for key in _keys(pool):
                pipeline.zrem(key, rid)
            await pipeline.execute()

    async def depth(self, pool: str) -> int:
        """The number of waiting callers. It is one where nobody waits but the pool is wanted."""
        return int(await self._depth(keys=[room_key(pool), wanted_key(pool)]))

    async def depths(self, pools: Sequence[str]) -> dict[str, int]:
        """The number of waiting callers of many pools, in one round trip."""
        if not pools:
            return {}
        async with self._redis.pipeline(transaction=False) as pipeline:
            for pool in pools:
                await self._depth(keys=[room_key(pool), wanted_key(pool)], client=pipeline)
            counts = await pipeline.execute()
        return {pool: int(count) for pool, count in zip(pools, counts, strict=True)}

    async def due(self, pools: Sequence[str]) -> dict[str, tuple[Due, ...]]:
        """How many callers of each pool have to begin by when, the earliest first."""
        if not pools:
            return {}
        async with self._redis.pipeline(transaction=False) as pipeline:
            for pool in pools:
                await self._due(keys=[room_key(pool)], args=[DUE_MAX], client=pipeline)
            answers = await pipeline.execute()
        return {
            pool: tuple(Due(*pair) for pair in zip(flat[::2], flat[1::2], strict=True))
            for pool, flat in zip(pools, answers, strict=True)
        }

    async def queues(self, pools: Sequence[str]) -> dict[str, tuple[TierQueue, ...]]:
        """How many callers of each tier wait for each pool. Tiers without callers are left out."""
        if not pools:
            return {}
        async with self._redis.pipeline(transaction=False) as pipeline:
            for pool in pools:
                await self._tiers(keys=_keys(pool), client=pipeline)
            answers = await pipeline.execute()
        return {
            pool: tuple(TierQueue(*each) for each in _by_tier(counts) if each[1])
            for pool, counts in zip(pools, answers, strict=True)
        }

    async def position(self, pool: str, rid: str) -> int | None:
        """The position of a caller: 0 for the earliest deadline, None if it does not wait."""
        rank = await self._redis.zrank(room_key(pool), rid)
        return rank if isinstance(rank, int) else None

    @asynccontextmanager
    async def waiting(
        self, pool: str, rid: str, *, wait_ms: int, tier: Tier = Tier.DEFAULT
    ) -> AsyncIterator[int]:
        """Enter for the block, and leave on every way out of it. Yields the position.

        It leaves also if the caller is cancelled while it enters, because nobody knows then whether
        it is inside.
        """
        try:
            yield await self.enter(pool, rid, wait_ms=wait_ms, tier=tier)
        finally:
            await self._leave_if_there(pool, rid)

    async def _leave_if_there(self, pool: str, rid: str) -> None:
        """Leave. A Redis that is away is only logged, because the entry ends with its deadline."""
        try:
            await self.leave(pool, rid)
        except RedisError as away:
            log.warning("%s stays in the room of %s until its deadline: %s", rid, pool, away)


def _keys(pool: str) -> list[str]:
    return [room_key(pool), *(tier_key(pool, tier) for tier in NAMED_TIERS)]


def _by_tier(counts: Sequence[int]) -> list[tuple[str, int]]:
    """Of a room, and of its named tiers: who is in none of them is of the default one."""
    everybody, *named = counts
    default = (str(Tier.DEFAULT), max(0, everybody - sum(named)))
    return [default, *((str(tier), n) for tier, n in zip(NAMED_TIERS, named, strict=True))]
