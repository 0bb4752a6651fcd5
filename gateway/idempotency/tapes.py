"""Claims and tapes in Redis: which call runs under a key, and what its answer was so far.

The one adapter. Per key a hash (`d` digest of what was asked, `r` request id, `s` state, `u` until
when the runner's lease lasts, by Redis' clock), per run a list of parts, and per organization what
all its tapes take up, so that answers never crowd out money. All of it expires by itself.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.limits.keys import shard_of, tag
from gateway.idempotency import scripts
from gateway.idempotency.key import Keyed
from gateway.idempotency.tape import TapeState

READ_PARTS_MAX = 256


class TapesUnavailable(Exception):
    """Redis did not answer in time or at all; what was asked may or may not have happened."""


class Becomes(StrEnum):
    """What a write makes of the claim. Once too large it stays so; released, it is gone."""

    RUNNING = "running"
    FINISHED = "finished"
    TOO_LARGE = "too_large"
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
    something else that ran under this key."""

    state: Literal["claimed", "taken", "other"]
    request_id: str


class Tapes:
    """Every method is one round trip bounded by `timeout_s`; raises TapesUnavailable."""

    def __init__(self, redis: Redis, settings: TapeSettings, *, timeout_s: float = 1.0) -> None:
        self.settings = settings
        self._timeout_s = timeout_s
        self._claim = redis.register_script(scripts.CLAIM)
        self._write = redis.register_script(scripts.WRITE)
        self._abandon = redis.register_script(scripts.ABANDON)
        self._read = redis.register_script(scripts.READ)

    async def claim(self, keyed: Keyed, rid: str) -> Claim:
        async with self._bounded():
            state, holder = await self._claim(
                keys=[_claim_key(keyed)], args=[keyed.asked, rid, self._lease_ms, self._ttl_ms]
            )
        return Claim(state.decode(), holder.decode())

    async def write(
        self, keyed: Keyed, rid: str, becomes: Becomes, written: int, parts: Sequence[bytes]
    ) -> TapeState:
        """Add parts to a tape that has `written` of them, and extend the runner's lease."""
        kept = _kept_key(keyed)
        async with self._bounded():
            state = await self._write(
                keys=[_claim_key(keyed), _tape_key(keyed, rid), f"{kept}:due", f"{kept}:sizes"],
                args=[
                    *(keyed.asked, rid, becomes.value, written),
                    *(self._lease_ms, self._ttl_ms, self.settings.organization_bytes_max),
                    *parts,
                ],
            )
        return TapeState.GONE if state == b"released" else TapeState(state.decode())

    async def abandon(self, keyed: Keyed, rid: str) -> None:
        """The runner ends without an end: whoever asks need not wait for its lease."""
        async with self._bounded():
            await self._abandon(keys=[_claim_key(keyed)], args=[rid])

    async def read(self, keyed: Keyed, rid: str, start: int) -> tuple[TapeState, list[bytes]]:
        """What the tape has from part number `start` on, READ_PARTS_MAX at most."""
        async with self._bounded():
            state, parts = await self._read(
                keys=[_claim_key(keyed), _tape_key(keyed, rid)], args=[rid, start, READ_PARTS_MAX]
            )
        return TapeState(state.decode()), parts

    @asynccontextmanager
    async def _bounded(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
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


def _kept_key(keyed: Keyed) -> str:
    return f"{_prefix(keyed)}:kept:{keyed.organization}"
