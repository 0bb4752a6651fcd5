"""Whether Redis counts what SQL has charged, scope by scope."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from redis.asyncio import Redis

from billing.checks.report import Check, Outcome, judged
from billing.limits.holds import Holds
from billing.limits.keys import SHARDS
from billing.limits.types import Spent
from billing.primer import open_in
from billing.spending import ScopeSums, spent_by_shard
from billing.store.engine import Store

NAME = "I11 spent_in_redis"
LAW = "what Redis counts as spent is what SQL has charged"
ATTEMPTS = 10
PAUSE_S = 0.2


def not_checked(reason: str) -> Check:
    return Check(NAME, LAW, Outcome.NOT_CHECKED, 0, reason)


async def spent_matches(redis: Redis, store: Store) -> Check:
    """Compare a few times: a record on its way from Redis to SQL is no break."""
    holds = Holds(redis)
    breaks: list[str] = []
    counted = 0
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(PAUSE_S)
        primed = await _open_shards(holds)
        if not primed:
            return not_checked("no shard is primed: the ledger process is not running")
        in_redis = await _spent_in_redis(holds)
        in_sql = await asyncio.to_thread(spent_by_shard, store)
        counted = sum(len(in_sql[shard]) for shard in primed)
        breaks = list(_differences(primed, in_redis, in_sql))
        if not breaks:
            break
    return judged(NAME, LAW, breaks, counted)


async def _open_shards(holds: Holds) -> list[int]:
    """Shards whose counters were set from SQL for the Redis process that answers now."""
    run_id = await holds.run_id()
    epochs = await holds.shard_epochs()
    return [shard for shard, epoch in epochs.items() if open_in(epoch, run_id)]


def _differences(
    shards: Iterable[int], in_redis: Mapping[int, ScopeSums], in_sql: Mapping[int, ScopeSums]
) -> Iterator[str]:
    nothing = Spent(0, {})
    for shard in shards:
        for scope in sorted({*in_redis[shard], *in_sql[shard]}):
            counted = in_redis[shard].get(scope, nothing)
            charged = in_sql[shard].get(scope, nothing)
            if counted != charged:
                yield f"{scope}: Redis {counted}, SQL {charged}"


async def _spent_in_redis(holds: Holds) -> dict[int, ScopeSums]:
    return {
        shard: {
            scope: _without_nothing(spent) for scope, spent in (await holds.spent(shard)).items()
        }
        for shard in range(SHARDS)
    }


def _without_nothing(spent: Spent) -> Spent:
    return Spent(spent.total_nanousd, {month: n for month, n in spent.months.items() if n})
