"""The primer against a real Redis that is restarted and wiped."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.keys import shard_of, usage_key
from billing.limits.types import Admitted, LimitsUnavailable, Refused
from billing.queries import call_by_rid
from billing.recovery.primer import GATEWAYS_KEY, READY_KEY, RECOVERED_KEY
from billing.spool.spool import Spool
from billing.tasks import end
from billing.types import encode
from tests.billing.calls import opened_call, settled_call
from tests.billing.ledger_parts import (
    SETTINGS,
    eventually,
    make_primer,
    make_writer,
    unlimited,
    writing,
)
from tests.redis_server import RedisServer

AMOUNT = 220 + 1120 + 1
OPENED = opened_call("req_new")
PATIENT = SETTINGS.model_copy(update={"recovery_grace_s": 120.0, "gateway_silent_s": 120.0})
LESS_THAN_THE_GRACE_S = 60.0


async def settled_before(redis: Redis, rid: str = "req_old") -> None:
    call = settled_call(opened_call(rid), AMOUNT)
    await redis.xadd(usage_key(shard_of(call.org)), {"k": "settled", "r": rid, "p": encode(call)})


async def spent(redis: Redis) -> int:
    return (await Holds(redis).money("org_1", "org:org_1")).spent.total_nanousd


async def test_every_shard_opens_with_what_sql_has_charged(redis: Redis, store: Store) -> None:
    await settled_before(redis)
    await make_writer(redis, store).turn()
    await redis.flushall()
    opened: list[str] = []
    async with writing(make_writer(redis, store)):
        await make_primer(redis, store, opened).turn()
    assert await spent(redis) == AMOUNT
    run_id = await Holds(redis).run_id()
    assert opened == [run_id]
    assert await redis.get(READY_KEY) == run_id.encode()
    epochs = await Holds(redis).shard_epochs()
    assert {epoch.state for epoch in epochs.values()} == {"open"}


async def test_who_could_not_be_told_that_shards_are_open_is_told_again(
    redis: Redis, store: Store
) -> None:
    tries: list[str] = []

    async def on_open(run_id: str) -> None:
        tries.append(run_id)
        if len(tries) == 1:
            raise OperationalError("SELECT 1", None, Exception("SQL went away"))

    primer = make_primer(redis, store)
    primer._on_open = on_open
    async with writing(make_writer(redis, store)):
        with pytest.raises(OperationalError):
            await primer.turn()
        for _ in range(2):
            await primer.turn()
    assert len(tries) == 2


async def test_an_open_shard_is_left_as_it_is(redis: Redis, store: Store) -> None:
    primer = make_primer(redis, store)
    async with writing(make_writer(redis, store)):
        await primer.turn()
        before = await Holds(redis).shard_epochs()
        await make_primer(redis, store).turn()
    assert await Holds(redis).shard_epochs() == before


async def test_a_shard_opens_only_behind_its_last_record(redis: Redis, store: Store) -> None:
    await settled_before(redis)
    priming = asyncio.create_task(make_primer(redis, store).turn())
    await asyncio.sleep(0.2)
    refused = await Holds(redis).admit(OPENED, unlimited(OPENED), lease_s=5)
    assert isinstance(refused, Refused) and refused.dimension == "unprimed"
    assert not priming.done()
    async with writing(make_writer(redis, store)):
        await asyncio.wait_for(priming, 30)
    assert call_by_rid(store, "req_old") is not None
    assert await spent(redis) == AMOUNT
    assert isinstance(await Holds(redis).admit(OPENED, unlimited(OPENED), lease_s=5), Admitted)


async def test_a_live_gateway_is_waited_for(redis: Redis, store: Store) -> None:
    run_id = await Holds(redis).run_id()
    await redis.zadd(GATEWAYS_KEY, {"gw-1": time.time() * 1000})
    async with writing(make_writer(redis, store)):
        priming = asyncio.create_task(make_primer(redis, store, settings=PATIENT).turn())
        await asyncio.sleep(0.1)
        assert not priming.done()
        await redis.hset(RECOVERED_KEY, "gw-1", run_id)
        await asyncio.wait_for(priming, LESS_THAN_THE_GRACE_S)


async def test_gateways_are_waited_for_again_where_redis_was_emptied_while_it_was_primed(
    redis: Redis, store: Store
) -> None:
    """The same process answers; what gateways had told it is gone."""
    primer = make_primer(redis, store, settings=PATIENT)
    priming = asyncio.create_task(primer.turn())  # nobody writes, so no shard can open
    await asyncio.sleep(0.2)
    await redis.flushall()
    await redis.zadd(GATEWAYS_KEY, {"gw-1": time.time() * 1000})
    async with writing(make_writer(redis, store)):
        with pytest.raises(LimitsUnavailable):
            await asyncio.wait_for(priming, LESS_THAN_THE_GRACE_S)
        again = asyncio.create_task(primer.turn())
        await asyncio.sleep(0.1)
        assert not again.done()
        await redis.hset(RECOVERED_KEY, "gw-1", await Holds(redis).run_id())
        await asyncio.wait_for(again, LESS_THAN_THE_GRACE_S)


async def test_gateway_that_an_emptied_redis_does_not_know_is_waited_for_by_its_spool(
    redis: Redis, store: Store, tmp_path: Path
) -> None:
    run_id = await Holds(redis).run_id()
    spool = Spool(tmp_path, "gw-1")
    async with writing(make_writer(redis, store)):
        primer = make_primer(redis, store, settings=PATIENT, spool_root=tmp_path)
        priming = asyncio.create_task(primer.turn())
        await asyncio.sleep(0.1)
        assert not priming.done()
        await redis.hset(RECOVERED_KEY, "gw-1", run_id)
        await asyncio.wait_for(priming, LESS_THAN_THE_GRACE_S)
    spool.close()


async def test_where_money_was_spent_and_no_gateway_is_known_the_first_one_is_waited_for(
    redis: Redis, store: Store
) -> None:
    """It may run on another machine."""
    await settled_before(redis)
    await make_writer(redis, store).turn()
    await redis.flushall()
    async with writing(make_writer(redis, store)):
        priming = asyncio.create_task(make_primer(redis, store, settings=PATIENT).turn())
        await asyncio.sleep(0.1)
        assert not priming.done()
        await redis.zadd(GATEWAYS_KEY, {"gw-1": time.time() * 1000})
        await redis.hset(RECOVERED_KEY, "gw-1", await Holds(redis).run_id())
        await asyncio.wait_for(priming, LESS_THAN_THE_GRACE_S)


async def test_a_gateway_that_never_comes_is_not_waited_for_long(
    redis: Redis, store: Store
) -> None:
    await redis.zadd(GATEWAYS_KEY, {"gw-1": time.time() * 1000})
    begun = time.monotonic()
    async with writing(make_writer(redis, store)):
        await asyncio.wait_for(make_primer(redis, store).turn(), 60)
    assert time.monotonic() - begun > 0.35


async def test_a_silent_gateway_is_not_waited_for(redis: Redis, store: Store) -> None:
    await redis.zadd(GATEWAYS_KEY, {"gw-1": (time.time() - 600) * 1000})
    async with writing(make_writer(redis, store)):
        primer = make_primer(redis, store, settings=PATIENT)
        await asyncio.wait_for(primer.turn(), LESS_THAN_THE_GRACE_S)


async def test_a_restarted_and_a_wiped_redis_are_primed_again(
    redis_server: RedisServer, redis: Redis, store: Store
) -> None:
    primer = make_primer(redis, store)
    running = asyncio.create_task(primer.run())
    async with writing(make_writer(redis, store)):
        await settled_before(redis)
        await eventually(lambda: call_by_rid(store, "req_old") is not None)
        for disturb in (redis_server.restart, redis_server.wipe):
            await asyncio.to_thread(disturb)
            async with asyncio.timeout(30):
                while True:
                    answer = await _admit(redis, disturb.__name__)
                    if isinstance(answer, Admitted):
                        break
                    await asyncio.sleep(0.02)
            assert await spent(redis) == AMOUNT
    await end(running)


async def _admit(redis: Redis, name: str) -> Admitted | Refused | None:
    opened = opened_call(f"req_{name}")
    try:
        return await Holds(redis).admit(opened, unlimited(opened), lease_s=5)
    except Exception:
        return None  # the server is being replaced
