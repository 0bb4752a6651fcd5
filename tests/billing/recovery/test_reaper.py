"""The reaper against real holds, a real spool and a real ledger."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
from redis.asyncio import Redis

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.keys import call_key, due_key, shard_of
from billing.limits.types import HoldState
from billing.prices.rating import amounts_of_book
from billing.prices.versions import load_book
from billing.queries import call_by_rid, open_call
from billing.recovery.reaper import Reaper
from billing.spool.spool import Spool
from billing.types import OpenedCall, SettledCall, UsageCheckpoint
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.ledger_parts import (
    SETTINGS,
    make_reaper,
    make_writer,
    open_shards,
    unlimited,
)

OPENED = opened_call(price_version="pv_1")
LAPSED_S = 0.001
SHARD = shard_of(OPENED.org)


async def admit(redis: Redis, opened: OpenedCall = OPENED, lease_s: float = LAPSED_S) -> None:
    await open_shards(redis)
    await Holds(redis).admit(opened, unlimited(opened), lease_s=lease_s)
    time.sleep(0.003)  # noqa: ASYNC251 - Redis' clock has to pass, nothing else runs


async def renew(redis: Redis, seen: UsageCheckpoint, lease_s: float = LAPSED_S) -> None:
    await Holds(redis).renew(
        OPENED.rid, OPENED.org, lease_s=lease_s, topup_nanousd=0, checkpoint=seen
    )
    time.sleep(0.003)  # noqa: ASYNC251 - as above


def answered(store: Store) -> SettledCall:
    call = settled_call(OPENED)
    amount = amounts_of_book(load_book(store))(
        model=call.model, tier=call.tier, batch=False, usage=call.usage, price_version="pv_1"
    )
    return settled_call(OPENED, amount)


async def test_g22_a_cut_call_is_charged_by_its_last_checkpoint_and_frees_the_rest(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    await admit(redis)
    await renew(redis, checkpoint(3))
    assert await make_reaper(redis, store, tmp_path).turn() == 1
    await make_writer(redis, store).turn()
    found = call_by_rid(store, OPENED.rid)
    assert found is not None
    assert (found.usage.source, found.usage.status) == ("estimated", "failed")
    assert (found.usage.input, found.usage.output) == (44, 30)
    assert found.usage.amount_nanousd == 220 + 600 + 1
    money = await Holds(redis).money(OPENED.org, f"org:{OPENED.org}")
    assert (money.held_nanousd, money.spent.total_nanousd) == (0, 821)


async def test_a_call_without_a_checkpoint_costs_nothing(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    await admit(redis)
    await make_reaper(redis, store, tmp_path).turn()
    await make_writer(redis, store).turn()
    found = call_by_rid(store, OPENED.rid)
    assert found is not None and found.usage.amount_nanousd == 0 and found.transfers == []


async def test_a_call_that_is_renewed_is_left_alone(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    await admit(redis)
    await renew(redis, checkpoint(1), lease_s=60)
    assert await make_reaper(redis, store, tmp_path).turn() == 0


async def test_the_end_of_a_call_in_the_spool_is_exact(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    await admit(redis)
    spool = Spool(tmp_path, OPENED.gateway)
    spool.opened(OPENED)
    spool.closed(answered(store))
    spool.close()
    await make_reaper(redis, store, tmp_path).turn()
    await make_writer(redis, store).turn()
    found = call_by_rid(store, OPENED.rid)
    assert found is not None
    assert (found.usage.source, found.usage.output) == ("exact", 56)


async def test_a_later_checkpoint_in_the_spool_counts(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    await admit(redis)
    await renew(redis, checkpoint(1))
    spool = Spool(tmp_path, OPENED.gateway)
    spool.opened(OPENED)
    spool.checkpoint(OPENED.rid, checkpoint(2))
    spool.close()
    await make_reaper(redis, store, tmp_path).turn()
    await make_writer(redis, store).turn()
    found = call_by_rid(store, OPENED.rid)
    assert found is not None and found.usage.output == 20


async def test_a_hold_that_sql_has_charged_already_is_only_closed(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    """As after a Redis that lost its last second: the record arrived, the settlement is gone."""
    writer = make_writer(redis, store)
    await admit(redis)
    await renew(redis, checkpoint(5))
    hold: Any = await redis.dump(call_key(SHARD, OPENED.rid))
    due: Any = await redis.dump(due_key(SHARD))
    await Holds(redis).settle(answered(store))
    await writer.turn()
    await redis.restore(call_key(SHARD, OPENED.rid), 0, hold, replace=True)
    await redis.restore(due_key(SHARD), 0, due, replace=True)
    before = call_by_rid(store, OPENED.rid)
    spent = (await Holds(redis).money(OPENED.org, "org:org_1")).spent
    assert await make_reaper(redis, store, tmp_path).turn() == 1
    await writer.turn()
    assert call_by_rid(store, OPENED.rid) == before
    assert (await Holds(redis).money(OPENED.org, "org:org_1")).spent == spent
    assert await Holds(redis).open_count(SHARD) == 0


async def test_a_call_that_only_sql_knows_is_settled_in_time(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    writer = make_writer(redis, store)
    await admit(redis, lease_s=60)
    await writer.turn()
    await redis.flushall()
    await open_shards(redis)
    assert open_call(store, OPENED.rid) is not None
    reaper = make_reaper(redis, store, tmp_path)
    assert await reaper.turn() == 0  # its gateway may still announce it
    await asyncio.sleep(0.005)
    assert await reaper.turn() == 1
    await make_writer(redis, store).turn()
    assert open_call(store, OPENED.rid) is None
    assert call_by_rid(store, OPENED.rid) is not None


async def test_nothing_is_reaped_while_redis_is_primed_and_shortly_after(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    reaper = make_reaper(redis, store, tmp_path)
    assert await reaper.turn() == 0  # unprimed
    await admit(redis)
    assert await reaper.turn() == 0
    await asyncio.sleep(SETTINGS.recovery_grace_s)
    assert await reaper.turn() == 1


async def test_call_that_cannot_be_settled_does_not_keep_the_others_open(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    """As one whose spool says more tokens than the scripts can carry."""
    other = opened_call("req_other", price_version="pv_1", gateway="gw-other")
    async with Spool(tmp_path, OPENED.gateway) as spool:
        spool.opened(OPENED)
        spool.closed(msgspec.structs.replace(settled_call(OPENED), output=2**31))
    await admit(redis)
    await admit(redis, other)
    assert await make_reaper(redis, store, tmp_path).turn() == 1
    for call, state in ((OPENED, HoldState.HELD), (other, HoldState.ESTIMATED)):
        hold = await Holds(redis).read(call.rid, call.org)
        assert hold and hold.state is state


async def test_a_call_that_is_renewed_while_the_reaper_looks_is_left_alone(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    """It was overdue when it was listed, and lives when it would be settled."""

    class Renewing(Holds):
        async def due(self, shard: int, **how: Any) -> Any:
            found = await super().due(shard, **how)
            if found:
                await renew(redis, checkpoint(1), lease_s=60)
            return found

    await admit(redis)
    reaper = Reaper(redis, Renewing(redis), store, tmp_path, SETTINGS, now=time.time)
    await reaper.turn()
    assert reaper.settled == 0
    hold = await Holds(redis).read(OPENED.rid, OPENED.org)
    assert hold is not None and hold.state is HoldState.HELD
