"""What a dead gateway's spool alone knows counts before anything may be spent again."""

from __future__ import annotations

from pathlib import Path

from redis.asyncio import Redis

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.queries import call_by_rid
from billing.spool.spool import Spool
from billing.types import UsageSource
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.ledger_parts import eventually, make_primer, make_writer, writing

AMOUNT = 220 + 1120 + 1
GATEWAY = "gw-dead"


def write(spool: Spool) -> None:
    """One call that ended, one that ran when its gateway died, one that had not begun."""
    for rid in ("req_ended", "req_ran", "req_new"):
        spool.opened(opened_call(rid))
    spool.closed(settled_call(opened_call("req_ended"), AMOUNT))
    spool.checkpoint("req_ran", checkpoint())


async def prime(redis: Redis, store: Store, root: Path) -> int:
    """What the organization has spent by the time its shard opens."""
    async with writing(make_writer(redis, store)):
        await make_primer(redis, store, spool_root=root).turn()
    return (await Holds(redis).money("org_1", "org:org_1")).spent.total_nanousd


async def test_what_only_the_spool_of_a_dead_gateway_knows_counts_before_shards_open(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    spool = Spool(tmp_path, GATEWAY)
    write(spool)
    spool.close()
    spent = await prime(redis, store, tmp_path)
    ended, ran = call_by_rid(store, "req_ended"), call_by_rid(store, "req_ran")
    assert ended is not None and ended.usage.amount_nanousd == AMOUNT
    assert ran is not None and ran.usage.source == UsageSource.ESTIMATED
    assert spent == AMOUNT + ran.usage.amount_nanousd > AMOUNT


async def test_telling_it_again_changes_nothing(redis: Redis, store: Store, tmp_path: Path) -> None:
    spool = Spool(tmp_path, GATEWAY)
    write(spool)
    spool.close()
    spent = await prime(redis, store, tmp_path)
    await redis.flushall()
    assert await prime(redis, store, tmp_path) == spent


async def test_spool_that_somebody_writes_to_is_its_own_affair(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    async with Spool(tmp_path, GATEWAY) as spool:
        write(spool)
        assert await prime(redis, store, tmp_path) == 0
    assert call_by_rid(store, "req_ended") is None


async def test_gateway_that_goes_before_it_recovered_is_settled_for_after_shards_opened(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    """It was waited for in vain, and then it stopped or was killed."""
    primer = make_primer(redis, store, spool_root=tmp_path)
    async with writing(make_writer(redis, store)):
        async with Spool(tmp_path, GATEWAY) as spool:
            write(spool)
            await primer.turn()
            assert call_by_rid(store, "req_ended") is None
        await primer.turn()
        await eventually(lambda: call_by_rid(store, "req_ended") is not None)


async def test_ledger_that_starts_settles_for_gateways_that_went_while_it_was_away(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    async with writing(make_writer(redis, store)):
        async with Spool(tmp_path, GATEWAY) as spool:
            write(spool)
            await make_primer(redis, store, spool_root=tmp_path).turn()
        await make_primer(redis, store, spool_root=tmp_path).turn()
        await eventually(lambda: call_by_rid(store, "req_ended") is not None)
