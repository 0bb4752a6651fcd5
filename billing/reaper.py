"""The reaper: settles holds whose gateway has gone, by what was last checkpointed.

It asks SQL first, because a hold may look open only where Redis lost the last second. What it
settles is `estimated`; the exact record, should the gateway come back with one, supersedes it.
Guards law 2: no hold stays open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.estimate import cut_call
from billing.limits.holds import Holds
from billing.limits.keys import SHARDS, due_key
from billing.limits.types import Hold, LimitsUnavailable, SettleState
from billing.prices import load_book
from billing.queries import known
from billing.rating import Unrateable, amounts_of_book
from billing.settings import LedgerSettings
from billing.store.engine import Store
from billing.types import OpenedCall, UsageCheckpoint

log = logging.getLogger("sluice.ledger.reaper")


class Reaper:
    """Settles overdue holds of all shards. `now` is epoch seconds."""

    def __init__(
        self,
        redis: Redis,
        holds: Holds,
        store: Store,
        settings: LedgerSettings,
        *,
        now: Callable[[], float],
    ) -> None:
        self.settled = 0
        self._redis: Any = redis
        self._holds = holds
        self._store = store
        self._settings = settings
        self._now = now

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.turn()
            except (RedisError, LimitsUnavailable, OSError, SQLAlchemyError) as error:
                log.warning("reaping waits: %s", error)
            await asyncio.sleep(self._settings.reap_interval_s)

    async def turn(self) -> int:
        """Settle what is overdue now; how many were."""
        before = self.settled
        for shard in await self._shards_with_holds():
            due = await self._holds.due(shard, limit=self._settings.reap_batch_max)
            if due:
                await self._reap(due)
        return self.settled - before

    async def _shards_with_holds(self) -> list[int]:
        pipe = self._redis.pipeline(transaction=False)
        for shard in range(SHARDS):
            pipe.zcard(due_key(shard))
        return [shard for shard, count in enumerate(await pipe.execute()) if count]

    async def _reap(self, due: Sequence[Hold]) -> None:
        on_record = await asyncio.to_thread(known, self._store, [hold.rid for hold in due])
        rate = amounts_of_book(await asyncio.to_thread(load_book, self._store))
        for hold in due:
            if hold.opened is None:
                log.error("hold %s cannot be settled: it does not say what it is for", hold.rid)
                continue
            checkpoint = None if hold.rid in on_record else hold.checkpoint
            ended_us = _ended_us(hold.opened, checkpoint)
            try:
                call = cut_call(hold.opened, checkpoint, ended_us=ended_us, rate=rate)
            except Unrateable as error:
                log.error("hold %s cannot be settled: %s", hold.rid, error)
                continue
            state = await self._holds.settle(call, only_if_due=True)
            if state != SettleState.LIVE:
                self.settled += 1
                log.info("settled %s as estimated: %s nano-USD", call.rid, call.amount_nanousd)


def _ended_us(opened: OpenedCall, checkpoint: UsageCheckpoint | None) -> int:
    """The last instant the call was seen to live, so that settling again says the same."""
    return checkpoint.at_us if checkpoint else opened.admitted_us
