"""Claims and tapes in Redis: which call runs under a key, and what its answer was so far.

The one adapter. Per key a hash (`d` digest of what was asked, `r` request id, `s` state, `u` until
when the runner's lease lasts, by Redis' clock), per run a list of parts, and per organization what
all its tapes take up, so that answers never crowd out money. All of it expires by itself.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.limits.keys import LAYOUT, epoch_key, shard_of, tag
from gateway.idempotency import scripts
from gateway.idempotency.key import Keyed
from gateway.idempotency.redis_time import RedisTime
from gateway.idempotency.tape import TapeState

READ_PARTS_MAX = 256
OPEN = f"{LAYOUT}:open:"


class TapesUnavailable(Exception):
    """Redis did not answer in time or at all. What was claimed or written counts only if it was
    done in that time."""


class Becomes(StrEnum):
    """What a write makes of the claim. What is not kept stays so; released, it is gone."""

    RUNNING = "running"
    FINISHED = "finished"
    TOO_LARGE = "too_large"
    NO_ROOM = "no_room"
    TORN = "torn"
    RELEASED = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class TapeSettings:
    """How long an answer is kept after it has ended (`ttl_s`), how much of one, and of all of one
    organization together; how long a runner may be silent (`lease_s`) before it counts as dead."""

    ttl_s: float = 3600.0
    answer_bytes_max: int = 4 << 20
    organization_bytes_max: int = 64 << 20
    lease_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Claim:
    """`claimed`: ours to run, as `request_id`. `taken`: that one runs or ran it. `other`: it was
    something else that ran under this key. `unknown`: Redis has lost what ran, and the ledger has
    not told it yet."""

    state: Literal["claimed", "taken", "other", "unknown"]
    request_id: str


class Tapes:
    """Every method is bounded by `timeout_s`, and claims and reads by the time they are given;
    raises TapesUnavailable."""

    def __init__(self, redis: Redis, settings: TapeSettings, *, timeout_s: float = 1.0) -> None:
        self.settings = settings
        self._redis = redis
        self._timeout_s = timeout_s
        self._time = RedisTime(lambda: asyncio.get_running_loop().time())
        self._claim = redis.register_script(scripts.CLAIM)
        self._write = redis.register_script(scripts.WRITE)
        self._abandon = redis.register_script(scripts.ABANDON)
        self._read = redis.register_script(scripts.READ)

    async def claim(self, keyed: Keyed, rid: str, within_s: float = math.inf) -> Claim:
        """A claim that is given up here is none, also where Redis comes to it later."""
        redis_keys = [_claim_key(keyed), epoch_key(shard_of(keyed.organization))]
        async with self._bounded(within_s) as until_s:
            while True:
                counts_until = await self._counts_until(until_s)
                state, holder, now_ms = await self._claim(
                    keys=redis_keys,
                    args=[
                        keyed.request_digest,
                        rid,
                        self._lease_ms,
                        self._ttl_ms,
                        counts_until,
                        OPEN,
                    ],
                )
                self._time.note(now_ms)
                if state != b"late":
                    return Claim(state.decode(), holder.decode())
                self._require_time(until_s)

    async def write(
        self, keyed: Keyed, rid: str, becomes: Becomes, parts_count: int, parts: Sequence[bytes]
    ) -> TapeState:
        """Add parts to a tape that has `parts_count` of them, and extend the runner's lease."""
        tapes = _tapes_key(keyed)
        async with self._bounded() as until_s:
            while True:
                state, now_ms = await self._write(
                    keys=[
                        _claim_key(keyed),
                        _tape_key(keyed, rid),
                        f"{tapes}:due",
                        f"{tapes}:sizes",
                    ],
                    args=[
                        *(keyed.request_digest, rid, becomes.value, parts_count),
                        *(self._lease_ms, self._ttl_ms, self.settings.organization_bytes_max),
                        await self._counts_until(until_s),
                        *parts,
                    ],
                )
                self._time.note(now_ms)
                if state != b"late":
                    break
                self._require_time(until_s)
        return TapeState.GONE if state == b"released" else TapeState(state.decode())

    async def abandon(self, keyed: Keyed, rid: str) -> None:
        """The runner ends without an end: whoever asks need not wait for its lease."""
        async with self._bounded():
            await self._abandon(keys=[_claim_key(keyed)], args=[rid])

    async def read(
        self, keyed: Keyed, rid: str, start: int, within_s: float = math.inf
    ) -> tuple[TapeState, list[bytes]]:
        """What the tape has from part number `start` on, READ_PARTS_MAX at most."""
        async with self._bounded(within_s):
            state, parts, now_ms = await self._read(
                keys=[_claim_key(keyed), _tape_key(keyed, rid)], args=[rid, start, READ_PARTS_MAX]
            )
        self._time.note(now_ms)
        return TapeState(state.decode()), parts

    async def _counts_until(self, until_s: float) -> int:
        """An instant of this loop in Redis' milliseconds."""
        if not self._time.is_known:
            seconds, micros = await self._redis.time()
            self._time.note(seconds * 1000 + micros // 1000)
        return self._time.in_ms(until_s - asyncio.get_running_loop().time())

    def _require_time(self, until_s: float) -> None:
        """Between two tries. A timer alone has no turn where each answer is here at once."""
        if asyncio.get_running_loop().time() >= until_s:
            raise TapesUnavailable("redis did not answer in time")

    @asynccontextmanager
    async def _bounded(self, within_s: float = math.inf) -> AsyncIterator[float]:
        """Until when, by the loop's clock, an answer is waited for."""
        bound_s = max(0.0, min(self._timeout_s, within_s))
        try:
            async with asyncio.timeout(bound_s):
                yield asyncio.get_running_loop().time() + bound_s
        except (RedisError, OSError) as error:
            raise TapesUnavailable(str(error) or "redis did not answer in time") from error

    @property
    def _lease_ms(self) -> int:
        return round(self.settings.lease_s * 1000)

    @property
    def _ttl_ms(self) -> int:
        return round(self.settings.ttl_s * 1000)


def _prefix(keyed: Keyed) -> str:
    """In the hash slot of the organization's money."""
    return f"{tag(shard_of(keyed.organization))}:idem"


def _claim_key(keyed: Keyed) -> str:
    return f"{_prefix(keyed)}:key:{keyed.api_key}:{keyed.name}"


def _tape_key(keyed: Keyed, rid: str) -> str:
    return f"{_prefix(keyed)}:tape:{rid}"


def _tapes_key(keyed: Keyed) -> str:
    return f"{_prefix(keyed)}:kept:{keyed.organization}"
