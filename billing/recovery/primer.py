"""The primer: no paid call is admitted before Redis knows what was spent.

A shard whose epoch is missing, or belongs to another Redis process, is closed. Live gateways get a
bounded time to announce their holds again, and the spools of dead ones are replayed here. The
writer reaches the end of the shard's stream. Then one step sets the sums of SQL and opens the
shard. It fails if a record has arrived since. Guards law 8: no restart and no wipe overspends a
budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError
from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.keys import usage_key
from billing.limits.spending import ScopeSums, purses_by_shard, spent_by_shard
from billing.limits.types import LimitsUnavailable, PurseSpent, ShardEpoch
from billing.recovery import holds as hold_rows
from billing.settings import LedgerSettings
from billing.usage import store as usage
from billing.writer.stream import GROUP

log = logging.getLogger("sluice.ledger.primer")

GATEWAYS_KEY = "sluice:gateways"
RECOVERED_KEY = "sluice:recovered"
READY_KEY = "sluice:ledger:ready"
RECOUNT_KEY = "sluice:ledger:recount"
"""Set of shards whose counters are to be set anew from SQL."""
POLL_S = 0.02


class Spools(Protocol):
    """The spools of the gateways of this machine (see `billing.spool.orphans`)."""

    def names(self) -> set[str]:
        """Gateways that run or ran."""

    def in_use(self) -> set[str]:
        """Gateways that run: a process writes to their spools."""

    async def settle(self, gateways: Iterable[str]) -> None:
        """Replay the spools of these, which are gone."""


class Primer:
    """`tick` is a monotonic clock; `now` is epoch seconds. `spools` are those of gateways that
    write or wrote on this machine. `on_open` runs when all shards are open."""

    def __init__(
        self,
        redis: Redis,
        holds: Holds,
        store: Store,
        settings: LedgerSettings,
        *,
        now: Callable[[], float],
        tick: Callable[[], float],
        spools: Spools,
        on_open: Callable[[str], Awaitable[None]],
    ) -> None:
        self._redis: Any = redis
        self._holds = holds
        self._store = store
        self._settings = settings
        self._now = now
        self._tick = tick
        self._spools = spools
        self._on_open = on_open
        self._open_for: str | None = None
        self._gateways: dict[str, float] = {}  # id -> tick at which it was last alive
        self._unsettled: set[str] | None = None  # may have charges that only a spool knows

    async def run(self) -> None:
        """Look every `prime_interval_s` until cancelled, and prime each shard that is not open."""
        while True:
            try:
                await self.turn()
            except (RedisError, LimitsUnavailable, OSError, SQLAlchemyError) as error:
                log.warning("priming waits: %s", error)
            await asyncio.sleep(self._settings.prime_interval_s)

    async def turn(self) -> None:
        """Open every shard that is not open for the Redis process that answers now."""
        await self._remember_gateways()
        run_id = await self._holds.run_id()
        await self._close_what_is_recounted(run_id)
        epochs = await self._closed(run_id)
        if epochs:
            self._open_for = None
            await self._prime(run_id, epochs)
            log.info("primed %d shards for %s", len(epochs), run_id)
        if self._open_for != run_id:
            await self._redis.set(READY_KEY, run_id)
            await self._on_open(run_id)
            self._open_for = run_id
        await self._settle_late(run_id)

    async def _close_what_is_recounted(self, run_id: str) -> None:
        """Close the shards for which a recount was asked. Their sums are read after this, so every
        such request is served."""
        if shards := await self._redis.smembers(RECOUNT_KEY):
            for shard in shards:
                await self._holds.begin_priming(int(shard), self._fresh_epoch(run_id))
            await self._redis.srem(RECOUNT_KEY, *shards)

    async def _closed(self, run_id: str) -> dict[int, ShardEpoch]:
        epochs = await self._holds.shard_epochs()
        return {shard: e for shard, e in epochs.items() if not open_in(e, run_id)}

    async def _prime(self, run_id: str, epochs_before: dict[int, ShardEpoch]) -> None:
        epochs = await self._begin(run_id, epochs_before)
        await self._wait_for_gateways(run_id)
        self._unsettled = await self._settle(await asyncio.to_thread(self._spools.names))
        while epochs:
            await self._remember_gateways()
            ends = await self._stream_ends(list(epochs))
            sums, purses = await asyncio.to_thread(self._sums) if ends else ({}, {})
            for shard, last_id in ends.items():
                epoch = epochs[shard]
                if await self._holds.prime(shard, sums[shard], last_id, epoch, purses[shard]):
                    del epochs[shard]
            if epochs:
                await asyncio.sleep(POLL_S)
                epochs = await self._still_mine(run_id, epochs)

    async def _settle_late(self, run_id: str) -> None:
        """Settle for the gateways that were still there when the shards were primed, and that went
        without having recovered. After its own start a ledger asks of every gateway."""
        if self._unsettled is None:
            self._unsettled = await asyncio.to_thread(self._spools.names)
        if self._unsettled:
            self._unsettled = await self._settle(self._unsettled - await self._recovered(run_id))

    async def _settle(self, gateways: set[str]) -> set[str]:
        """Replay the spools of those that are gone. Returns the others."""
        gone = gateways - self._alive() - await asyncio.to_thread(self._spools.in_use)
        await self._spools.settle(sorted(gone))
        return gateways - gone

    async def _recovered(self, run_id: str) -> set[str]:
        marks = await self._redis.hgetall(RECOVERED_KEY)
        return {name.decode() for name, mark in marks.items() if _names(mark, run_id)}

    def _sums(self) -> tuple[dict[int, ScopeSums], dict[int, list[PurseSpent]]]:
        now_us = int(self._now() * 1e6)
        return spent_by_shard(self._store), purses_by_shard(self._store, now_us)

    async def _begin(self, run_id: str, epochs_before: dict[int, ShardEpoch]) -> dict[int, str]:
        """Close the shards. A priming that was begun for this Redis process and left is taken
        over."""
        fresh = self._fresh_epoch(run_id)
        epochs: dict[int, str] = {}
        for shard, state in epochs_before.items():
            if state.epoch and state.epoch.startswith(f"{run_id}:"):
                epochs[shard] = state.epoch
            else:
                epochs[shard] = fresh
                await self._holds.begin_priming(shard, fresh)
        return epochs

    def _fresh_epoch(self, run_id: str) -> str:
        return f"{run_id}:{int(self._now() * 1000):x}"

    async def _still_mine(self, run_id: str, epochs: dict[int, str]) -> dict[int, str]:
        """The shards that this primer has still to open. Raises LimitsUnavailable if Redis was
        replaced or emptied: the next turn starts over, and waits for the gateways again."""
        if await self._holds.run_id() != run_id:
            raise LimitsUnavailable("Redis was replaced while its shards were primed")
        epochs_now = await self._closed(run_id)
        if any(epochs_now[shard].epoch is None for shard in epochs if shard in epochs_now):
            raise LimitsUnavailable("Redis was emptied while its shards were primed")
        return await self._begin(run_id, {s: e for s, e in epochs_now.items() if s in epochs})

    async def _wait_for_gateways(self, run_id: str) -> None:
        """Wait until each live gateway has announced its holds, for the grace at most.

        A Redis that was emptied knows no gateway. The gateways of this machine are known by their
        spools. Where money was spent and no gateway is known at all, the first one is waited for.
        """
        deadline = self._tick() + self._settings.recovery_grace_s
        may_be_unknown = await asyncio.to_thread(self._has_history)
        while self._tick() < deadline:
            await self._remember_gateways()
            alive = self._alive() | await asyncio.to_thread(self._spools.in_use)
            ready = await self._recovered(run_id)
            if alive <= ready and (alive or not may_be_unknown):
                return
            await asyncio.sleep(POLL_S)

    def _has_history(self) -> bool:
        """Whether any call was ever admitted or charged."""
        with self._store.read() as conn:
            now_us = int(self._now() * 1e6) + 1
            return bool(
                hold_rows.admitted_before(conn, now_us, 1)
                or usage.newest(conn, 1, usage.EVERY_CALL)
            )

    async def _remember_gateways(self) -> None:
        """Note which gateways are alive. A heartbeat is compared with the one before, so that no
        two clocks are compared."""
        beats = await self._redis.zrange(GATEWAYS_KEY, 0, -1, withscores=True)
        seconds, micros = await self._redis.time()
        oldest_ms = seconds * 1000 + micros / 1000 - self._settings.gateway_silent_s * 1000
        for name, beat_ms in beats:
            if beat_ms >= oldest_ms:
                self._gateways[name.decode()] = self._tick()

    def _alive(self) -> set[str]:
        oldest = self._tick() - self._settings.gateway_silent_s
        return {name for name, seen_s in self._gateways.items() if seen_s >= oldest}

    async def _stream_ends(self, shards: list[int]) -> dict[int, str]:
        """For each shard whose stream is read and acknowledged to its end, the id of that end."""
        pipe = self._redis.pipeline(transaction=False)
        for shard in shards:
            pipe.xinfo_stream(usage_key(shard))
            pipe.xinfo_groups(usage_key(shard))
        answers = await pipe.execute(raise_on_error=False)
        ends: dict[int, str] = {}
        for shard, stream, groups in zip(shards, answers[::2], answers[1::2], strict=True):
            if isinstance(stream, ResponseError) or isinstance(groups, ResponseError):
                continue  # the writer has not made its group yet
            last_id = stream["last-generated-id"]
            own_groups = [group for group in groups if group["name"] == GROUP.encode()]
            if (
                own_groups
                and own_groups[0]["last-delivered-id"] == last_id
                and not own_groups[0]["pending"]
            ):
                ends[shard] = last_id.decode()
        return ends


def open_in(epoch: ShardEpoch, run_id: str) -> bool:
    """Whether a shard was opened for this Redis process."""
    return epoch.state == "open" and bool(epoch.epoch and epoch.epoch.startswith(f"{run_id}:"))


def _names(mark: bytes, run_id: str) -> bool:
    """Whether a gateway's mark of recovery is for this run. The mark is the run id, or an epoch
    that begins with it."""
    return mark.decode().partition(":")[0] == run_id
