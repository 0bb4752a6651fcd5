"""A shard with a clock that stands still until a test moves it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.state import ScopeState, decode_scope
from billing.limits.types import ScopeLimits, Spent
from tests.billing.calls import ADMITTED_US, opened_call

CLOCK_KEY = "test:clock_us"
CLOCK_LUA = f"local function now_us() return tonumber(redis.call('GET', '{CLOCK_KEY}')) end"
ORG = "org_1"
SHARD = keys.shard_of(ORG)
SCOPES = tuple(opened_call().scopes)
MONTH = opened_call().month
LEASE_S = 10.0


class Clock:
    """The time the scripts see, in microseconds."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.now_us = ADMITTED_US

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    async def advance(self, us: int) -> None:
        self.now_us += us
        await self._redis.set(CLOCK_KEY, self.now_us)


async def stopped_clock(redis: Redis) -> tuple[Holds, Clock]:
    clock = Clock(redis)
    await clock.advance(0)
    return Holds(redis, clock_lua=CLOCK_LUA), clock


async def open_shard(
    holds: Holds, spent: Mapping[str, Spent] | None = None, shard: int = SHARD
) -> None:
    epoch = f"{await holds.run_id()}:test"
    await holds.begin_priming(shard, epoch)
    assert await holds.prime(shard, spent or {}, await holds.last_stream_id(shard), epoch)


def unlimited() -> list[ScopeLimits]:
    return [ScopeLimits(scope=scope) for scope in SCOPES]


def limited(scope: str = SCOPES[0], **limits: object) -> list[ScopeLimits]:
    """Limits on one of the three scopes."""
    return [
        ScopeLimits(scope=each, **limits) if each == scope else ScopeLimits(scope=each)  # type: ignore[arg-type]
        for each in SCOPES
    ]


async def scope_state(redis: Redis, scope: str, shard: int = SHARD) -> ScopeState:
    data: Any = await redis.get(keys.scope_key(shard, scope))
    return decode_scope(data)


async def digest(redis: Redis) -> str:
    """Of every key and its contents in Redis, but the test's clock and the note of lapsed leases,
    which says nothing that the due times do not."""
    sha = hashlib.sha256()
    aside = {CLOCK_KEY.encode(), keys.lapsed_key(SHARD).encode()}
    for key in sorted(await redis.keys("*")):
        if key not in aside:
            sha.update(repr((key, await _contents(redis, key))).encode())
    return sha.hexdigest()


async def _contents(redis: Redis, key: bytes) -> object:
    match await redis.type(key):
        case b"string":
            return await redis.get(key)
        case b"hash":
            return sorted((await redis.hgetall(key)).items())
        case b"set":
            return sorted(await redis.smembers(key))
        case b"zset":
            return await redis.zrange(key, 0, -1, withscores=True)
        case _:
            return await redis.xrange(key)
