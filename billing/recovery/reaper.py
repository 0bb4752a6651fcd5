"""The reaper: settles calls whose gateway has gone, by the best record that is known of them.

It asks SQL first, because a hold may look open only where Redis lost the last second. Then it reads
the gateway's spool, where this process can. The spool may have the end of the call, or a later
checkpoint than Redis. Without an end the settlement is `estimated`. An exact record supersedes it,
should the gateway come back with one. Guards law 2: no hold stays open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.keys import SHARDS, call_key, due_key, shard_of
from billing.limits.types import LimitsUnavailable, SettleState
from billing.prices.estimate import Rate, cut_call, later
from billing.prices.rating import Unrateable, amounts_of_book
from billing.prices.versions import load_book
from billing.queries import known
from billing.recovery import holds as hold_rows
from billing.recovery.primer import open_in
from billing.settings import LedgerSettings
from billing.spool.spool import SpooledCall, replay
from billing.types import OpenedCall, SettledCall, UsageCheckpoint, decode_opened

log = logging.getLogger("sluice.ledger.reaper")

MICROSECONDS = 1_000_000
ORPHANS_LOOKED_AT = 10_000


class Reaper:
    """Settles overdue holds of all shards. `now` is epoch seconds."""

    def __init__(
        self,
        redis: Redis,
        holds: Holds,
        store: Store,
        spool_root: Path,
        settings: LedgerSettings,
        *,
        now: Callable[[], float],
    ) -> None:
        self.settled = 0
        self._quiet_until = 0.0
        self._next_orphans = 0.0
        self._missing_since: dict[str, float] = {}
        self._redis: Any = redis
        self._holds = holds
        self._store = store
        self._spool_root = spool_root
        self._settings = settings
        self._now = now

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.turn()
            except (RedisError, LimitsUnavailable, OSError, SQLAlchemyError) as error:
                log.warning("reaping waits: %s", error)
            await asyncio.sleep(self._settings.reap_interval_s)

    async def turn(self) -> int:
        """Settle the calls that are overdue now. Returns how many there were."""
        before = self.settled
        if not await self._is_quiet():
            for shard in await self._shards_with_holds():
                due = await self._holds.due(shard, limit=self._settings.reap_batch_max)
                await self._settle([(hold.opened, hold.checkpoint) for hold in due if hold.opened])
            await self._settle([(call, None) for call in await self._orphans()])
        return self.settled - before

    async def _is_quiet(self) -> bool:
        """Whether live gateways may be late with their leases: while Redis is primed, and a while
        after."""
        run_id = await self._holds.run_id()
        epochs = await self._holds.shard_epochs()
        if not all(open_in(epoch, run_id) for epoch in epochs.values()):
            self._quiet_until = self._now() + self._settings.recovery_grace_s
        return self._now() < self._quiet_until

    async def _shards_with_holds(self) -> list[int]:
        pipe = self._redis.pipeline(transaction=False)
        for shard in range(SHARDS):
            pipe.zcard(due_key(shard))
        return [shard for shard, count in enumerate(await pipe.execute()) if count]

    async def _orphans(self) -> list[OpenedCall]:
        """Calls that SQL has as open and that Redis has not known for `orphan_after_s`. Redis was
        emptied, and no gateway has announced them again."""
        if self._now() < self._next_orphans:
            return []
        self._next_orphans = self._now() + self._settings.orphan_after_s / 4
        rows = await asyncio.to_thread(self._open_in_sql)
        pipe = self._redis.pipeline(transaction=False)
        for row in rows:
            pipe.exists(call_key(shard_of(row["org"]), row["rid"]))
        held = await pipe.execute()
        missing = {row["rid"]: row for row, there in zip(rows, held, strict=True) if not there}
        since = {rid: self._missing_since.get(rid, self._now()) for rid in missing}
        self._missing_since = since
        oldest = self._now() - self._settings.orphan_after_s
        return [decode_opened(missing[rid]["opened"]) for rid, at in since.items() if at <= oldest]

    def _open_in_sql(self) -> list[dict[str, Any]]:
        with self._store.read() as conn:
            now_us = int(self._now() * MICROSECONDS)
            return hold_rows.admitted_before(conn, now_us, ORPHANS_LOOKED_AT)

    async def _settle(self, overdue: Sequence[tuple[OpenedCall, UsageCheckpoint | None]]) -> None:
        if not overdue:
            return
        on_record = await asyncio.to_thread(known, self._store, [call.rid for call, _ in overdue])
        rate = amounts_of_book(await asyncio.to_thread(load_book, self._store))
        spooled = await asyncio.to_thread(self._spooled, {call.gateway for call, _ in overdue})
        for opened, checkpoint in overdue:
            try:
                if opened.rid in on_record:
                    call = _empty(opened, rate)
                else:
                    call = _owed(opened, checkpoint, spooled.get(opened.rid), rate)
                state = await self._holds.settle(call, only_if_due=True)
            except (Unrateable, ValueError) as error:
                log.error("%s cannot be settled: %s", opened.rid, error)
                continue
            if state != SettleState.LIVE:
                self.settled += 1
                log.info("settled %s as %s: %d", call.rid, call.source, call.amount_nanousd)

    def _spooled(self, gateways: set[str]) -> dict[str, SpooledCall]:
        """The calls in the spools of these gateways. There are none where the spools are on another
        machine."""
        return {
            call.rid: call for gateway in gateways for call in replay(self._spool_root, gateway)
        }


def _owed(
    opened: OpenedCall, checkpoint: UsageCheckpoint | None, spooled: SpooledCall | None, rate: Rate
) -> SettledCall:
    """The end of the call if its spool has it, else an estimate by the later checkpoint.

    The estimated end is the last time at which the call was seen to live. So settling again gives
    the same record.
    """
    if spooled and spooled.closed:
        return spooled.closed
    last = later(checkpoint, spooled.checkpoint if spooled else None)
    ended_us = last.at_us if last else opened.admitted_us
    return cut_call(opened, last, ended_us=ended_us, rate=rate)


def _empty(opened: OpenedCall, rate: Rate) -> SettledCall:
    """The settlement that closes the hold of a call that SQL has charged already. It is an estimate
    of nothing, and supersedes nothing."""
    return cut_call(opened, None, ended_us=opened.admitted_us, rate=rate)
