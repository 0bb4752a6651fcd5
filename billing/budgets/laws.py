"""Laws of budgets: their sums are those of the events, and Redis counts the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from redis.asyncio import Redis
from sqlalchemy import Connection

from billing.budgets import audit as audit_budgets
from billing.db.engine import Store
from billing.ledger.report import Check, Outcome, judged
from billing.limits.holds import Holds, oldest_us
from billing.limits.laws import BEHIND, PAUSES_S, UNPRIMED, booked_up_to, open_shards
from billing.limits.spending import purses_by_shard
from billing.limits.types import PurseSpent

SUMS = ("I9 budget_sums", "what counts against a budget is the sum of its calls' best records")
ALERTS = ("budget_alerts", "an alert was true when it was raised")
PURSES = ("I11 purses_in_redis", "what a hard budget has spent in Redis is what SQL has charged")
AHEAD_US = 5_000_000


def sums_recompute(conn: Connection) -> list[Check]:
    breaks = [
        f"budget {budget}, subject {subject or '-'}, bucket {bucket_us}: {more} nano-USD too much"
        for budget, subject, bucket_us, more in audit_budgets.wrong_buckets(conn)
    ]
    early = [
        f"budget {row['budget_id']} at {row['percent']} %: {row['spent_nanousd']} of"
        f" {row['amount_nanousd']}"
        for row in audit_budgets.untrue_alerts(conn)
    ]
    count = audit_budgets.count_counted(conn)
    return [judged(*SUMS, breaks, count), judged(*ALERTS, early, count)]


async def purses_match(redis: Redis, store: Store) -> Check:
    """Compare the purses in Redis with SQL while calls go on. SQL is read between two looks at
    Redis, and its sum has to lie between them. A sum that does not is looked at again."""
    holds = Holds(redis)
    breaks: list[str] = []
    count = 0
    for pause_s in PAUSES_S:
        await asyncio.sleep(pause_s)
        shards = await open_shards(holds)
        if not shards:
            return not_checked(UNPRIMED)
        now_us = await _now_us(redis)
        purses = await _purses(store, shards, now_us)
        before = await _in_redis(holds, purses, now_us)
        ends = {shard: await holds.last_stream_id(shard) for shard in shards}
        if not await booked_up_to(store, ends):
            return not_checked(BEHIND)
        charged = await _purses(store, shards, now_us)
        after = await _in_redis(holds, purses, now_us)
        count = len(before)
        breaks = list(_outside(before, _in_sql(charged, now_us), after))
        if not breaks:
            break
    return judged(*PURSES, breaks, count)


def not_checked(reason: str) -> Check:
    return Check(*PURSES, Outcome.NOT_CHECKED, 0, reason)


async def _now_us(redis: Redis) -> int:
    """A time a little ahead of Redis. Redis still has every part of a rolling span that counts
    then."""
    seconds, micros = await redis.time()
    return seconds * 1_000_000 + micros + AHEAD_US


async def _purses(store: Store, shards: Sequence[int], now_us: int) -> dict[int, list[PurseSpent]]:
    by_shard = await asyncio.to_thread(purses_by_shard, store, now_us)
    return {shard: by_shard[shard] for shard in shards}


async def _in_redis(
    holds: Holds, spent_purses: Mapping[int, Sequence[PurseSpent]], now_us: int
) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for shard, spent in spent_purses.items():
        purses = [each.purse for each in spent]
        money = await holds.purses_of(shard, purses, now_us=now_us)
        amounts |= {purse.name: m[1] for purse, m in zip(purses, money, strict=True)}
    return amounts


def _in_sql(purses: Mapping[int, Sequence[PurseSpent]], now_us: int) -> dict[str, int]:
    return {
        each.purse.name: sum(
            amount for begins, amount in each.parts if begins >= oldest_us(each.purse, now_us)
        )
        for spent in purses.values()
        for each in spent
    }


def _outside(
    before: Mapping[str, int], charged: Mapping[str, int], after: Mapping[str, int]
) -> Iterator[str]:
    for name, first in before.items():
        low, high = sorted((first, after[name]))
        if not low <= charged.get(name, 0) <= high:
            yield f"{name}: Redis {after[name]}, SQL {charged.get(name, 0)}"
