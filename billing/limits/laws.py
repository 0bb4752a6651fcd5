"""Whether Redis counts what SQL has charged, and holds what its open calls hold, in every scope.

Calls go on meanwhile. The spent amount is read from Redis before and after SQL. By then SQL has
booked what was settled by the first look, so its amount must lie between the two. The held amount
is compared in shards where nothing moved between two looks. Calls that open or end are in the
streams of their shards, and the hold of an open call only grows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from redis.asyncio import Redis

from billing.db.engine import Store
from billing.ledger.report import Check, Outcome, judged
from billing.limits.holds import Holds
from billing.limits.spending import ScopeSums, spent_by_shard
from billing.limits.types import Spent
from billing.recovery.primer import open_in
from billing.writer import marks
from billing.writer.marks import order_of

SPENT = ("I11 spent_in_redis", "what Redis counts as spent is what SQL has charged")
HELD = ("I11 held_in_redis", "what Redis counts as held is what its open calls hold")
UNPRIMED = "no shard is primed: the ledger process is not running"
BEHIND = "the writer is behind: what Redis settled is not booked yet"
BEHIND_MAX_S = 10.0
POLL_S = 0.05
PAUSES_S = (0.0, 0.2, 0.4, 0.8)
"""Before each try: a correction lowers what was spent, here first and there later."""
HOLDS_MAX = 10_000
EVER_MS = 1 << 52


def not_checked(reason: str) -> list[Check]:
    return [Check(name, law, Outcome.NOT_CHECKED, 0, reason) for name, law in (SPENT, HELD)]


async def redis_matches(redis: Redis, store: Store) -> list[Check]:
    """Check both laws over the shards that are open."""
    holds = Holds(redis)
    if not await open_shards(holds):
        return not_checked(UNPRIMED)
    return [await _spent_matches(holds, store), await _held_matches(holds)]


async def _spent_matches(holds: Holds, store: Store) -> Check:
    breaks: list[str] = []
    count = 0
    for pause_s in PAUSES_S:
        await asyncio.sleep(pause_s)
        primed = await open_shards(holds)
        before = await _spent_in_redis(holds, primed)
        ends = {shard: await holds.last_stream_id(shard) for shard in primed}
        if not await booked_up_to(store, ends):
            return Check(*SPENT, Outcome.NOT_CHECKED, 0, BEHIND)
        in_sql = await asyncio.to_thread(spent_by_shard, store)
        after = await _spent_in_redis(holds, primed)
        count = sum(len(in_sql[shard]) for shard in primed)
        breaks = [
            mismatch
            for shard in primed
            for mismatch in _outside(before[shard], in_sql[shard], after[shard])
        ]
        if not breaks:
            break
    return judged(*SPENT, breaks, count)


async def booked_up_to(store: Store, ends: Mapping[int, str]) -> bool:
    """Wait a while until the writer has booked what was settled."""
    for _ in range(round(BEHIND_MAX_S / POLL_S)):
        booked = await asyncio.to_thread(_booked, store)
        if all(order_of(booked.get(shard, "0-0")) >= order_of(end) for shard, end in ends.items()):
            return True
        await asyncio.sleep(POLL_S)
    return False


def _booked(store: Store) -> dict[int, str]:
    with store.read() as conn:
        return marks.entries(conn)


async def _held_matches(holds: Holds) -> Check:
    """Compare the held amounts. A shard that never stands still is neither compared nor counted."""
    breaks: list[str] = []
    shards = await open_shards(holds)
    compared = 0
    for pause_s in PAUSES_S:
        await asyncio.sleep(pause_s)
        moving = []
        for shard in shards:
            since = await holds.last_stream_id(shard)
            calls = await _open_calls(holds, shard)
            sums = await holds.held(shard)
            stood_still = since == await holds.last_stream_id(shard)
            if calls is None or not stood_still or calls != await _open_calls(holds, shard):
                moving.append(shard)
                continue
            compared += len(sums)
            breaks += _unlike(_held_by_scope(calls), sums)
        shards = moving
    return judged(*HELD, breaks, compared)


async def open_shards(holds: Holds) -> list[int]:
    """Shards whose counters were set from SQL for the Redis process that answers now."""
    run_id = await holds.run_id()
    epochs = await holds.shard_epochs()
    return [shard for shard, epoch in epochs.items() if open_in(epoch, run_id)]


def _outside(before: ScopeSums, charged: ScopeSums, after: ScopeSums) -> Iterator[str]:
    """Scopes for which SQL says less, or more, than Redis did at both looks."""
    nothing = Spent(0, {})
    for scope in sorted({*before, *charged, *after}):
        first, sql, last = (sums.get(scope, nothing) for sums in (before, charged, after))
        for month in (None, *sorted({*first.months, *sql.months, *last.months})):
            low, high = sorted((_amount(first, month), _amount(last, month)))
            if not low <= _amount(sql, month) <= high:
                yield f"{scope}: Redis {last}, SQL {sql}"
                break


def _amount(spent: Spent, month: str | None) -> int:
    return spent.total_nanousd if month is None else spent.months.get(month, 0)


async def _spent_in_redis(holds: Holds, shards: Iterable[int]) -> dict[int, ScopeSums]:
    return {shard: await holds.spent(shard) for shard in shards}


async def _open_calls(holds: Holds, shard: int) -> dict[str, tuple[int, tuple[str, ...]]] | None:
    """For each open call the amount that it holds, and its scopes. None if a hold cannot be read,
    or there are too many."""
    open_holds = await holds.due(shard, limit=HOLDS_MAX, now_ms=EVER_MS)
    if len(open_holds) >= HOLDS_MAX or any(hold.opened is None for hold in open_holds):
        return None
    return {
        hold.rid: (hold.held_nanousd, tuple(hold.opened.scopes) if hold.opened else ())
        for hold in open_holds
    }


def _held_by_scope(calls: Mapping[str, tuple[int, tuple[str, ...]]]) -> Counter[str]:
    held: Counter[str] = Counter()
    for amount, scopes in calls.values():
        for scope in scopes:
            held[scope] += amount
    return held


def _unlike(held: Counter[str], sums: Mapping[str, int]) -> list[str]:
    return [
        f"{scope}: Redis counts {sums.get(scope, 0)} as held, its open calls {held[scope]}"
        for scope in sorted({*held, *sums})
        if sums.get(scope, 0) != held[scope]
    ]
