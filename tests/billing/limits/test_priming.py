from __future__ import annotations

from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import (
    Admitted,
    Dimension,
    Money,
    Refused,
    SettleState,
    ShardEpoch,
    Spent,
)
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    MONTH,
    ORG,
    SCOPES,
    SHARD,
    limited,
    open_shard,
    unlimited,
)
from tests.redis_server import RedisServer


async def test_a_restarted_redis_admits_nothing_until_it_is_primed_again(
    redis_server: RedisServer, redis: Redis
) -> None:
    holds = Holds(redis)
    await redis.config_set("appendfsync", "always")  # else a slow fsync may lose what was answered
    await open_shard(holds)
    assert isinstance(await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S), Admitted)
    redis_server.restart()
    assert (await holds.shard_epochs())[SHARD].state == "open"  # as the file remembers it
    answer = await holds.admit(opened_call("req_2"), unlimited(), lease_s=LEASE_S)
    assert isinstance(answer, Refused) and answer.dimension is Dimension.UNPRIMED
    await open_shard(holds)
    answer = await holds.admit(opened_call("req_2"), unlimited(), lease_s=LEASE_S)
    assert isinstance(answer, Admitted)
    assert (await holds.money(ORG, SCOPES[0])).held_nanousd == 2_000


async def test_a_client_that_slept_through_the_restart_cannot_use_the_old_epoch(
    redis_server: RedisServer, redis: Redis
) -> None:
    awake, asleep = Holds(redis), Holds(redis)
    await open_shard(awake)
    await asleep.admit(opened_call("req_0"), unlimited(), lease_s=LEASE_S)
    redis_server.restart()
    for holds, rid in ((awake, "req_1"), (asleep, "req_2")):
        answer = await holds.admit(opened_call(rid), unlimited(), lease_s=LEASE_S)
        assert isinstance(answer, Refused) and answer.dimension is Dimension.UNPRIMED


async def test_a_shard_opens_only_if_the_stream_has_not_moved_on(redis: Redis) -> None:
    holds = Holds(redis)
    epoch = f"{await holds.run_id()}:1"
    await holds.begin_priming(SHARD, epoch)
    assert (await holds.shard_epochs())[SHARD] == ShardEpoch("priming", epoch)
    read_to = await holds.last_stream_id(SHARD)
    assert read_to == "0-0"
    await holds.settle(settled_call(opened_call(), 700))
    assert not await holds.prime(SHARD, {}, read_to, epoch)
    sums = {scope: Spent(700, {MONTH: 700}) for scope in SCOPES}
    assert await holds.prime(SHARD, sums, await holds.last_stream_id(SHARD), epoch)
    assert (await holds.shard_epochs())[SHARD] == ShardEpoch("open", epoch)
    assert await holds.money(ORG, SCOPES[0]) == Money(0, Spent(700, {MONTH: 700}))


async def test_the_last_id_counts_even_when_the_stream_was_trimmed(redis: Redis) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    last_id = await holds.last_stream_id(SHARD)
    await redis.xtrim(keys.usage_key(SHARD), maxlen=0, approximate=False)
    assert await holds.last_stream_id(SHARD) == last_id != "0-0"


async def test_another_priming_that_began_meanwhile_wins(redis: Redis) -> None:
    holds = Holds(redis)
    run_id = await holds.run_id()
    await holds.begin_priming(SHARD, f"{run_id}:1")
    await holds.begin_priming(SHARD, f"{run_id}:2")
    assert not await holds.prime(SHARD, {}, "0-0", f"{run_id}:1")
    assert await holds.prime(SHARD, {}, "0-0", f"{run_id}:2")
    assert not await holds.prime(SHARD, {}, "0-0", f"{run_id}:2")


async def test_g23_opening_replaces_stale_sums_and_counts_open_holds(redis: Redis) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    for number in range(3):
        await holds.admit(opened_call(f"req_{number}"), unlimited(), lease_s=LEASE_S)
    await holds.settle(settled_call(opened_call("req_0"), 700))
    await holds.renew("req_1", ORG, lease_s=LEASE_S, topup_nanousd=50, checkpoint=checkpoint())
    await open_shard(holds, {SCOPES[2]: Spent(9_000, {"202001": 9_000})})
    assert await holds.money(ORG, SCOPES[0]) == Money(2_050, Spent(0, {}))
    assert await holds.money(ORG, SCOPES[2]) == Money(2_050, Spent(9_000, {"202001": 9_000}))


async def test_while_priming_money_waits_for_the_ledger(redis: Redis) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    epoch = f"{await holds.run_id()}:2"
    await holds.begin_priming(SHARD, epoch)
    assert await holds.settle(settled_call(opened_call(), 700)) is SettleState.SETTLED
    assert await holds.money(ORG, SCOPES[0]) == Money(1_000, Spent(0, {}))
    sums = {SCOPES[0]: Spent(700, {MONTH: 700})}
    assert await holds.prime(SHARD, sums, await holds.last_stream_id(SHARD), epoch)
    assert await holds.money(ORG, SCOPES[0]) == Money(0, Spent(700, {MONTH: 700}))


async def test_a_wiped_redis_gets_its_live_holds_back(
    redis_server: RedisServer, redis: Redis
) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    scopes = limited(tokens_per_minute=600, token_burst=300, budget_nanousd=2_000)
    await holds.admit(opened_call(), scopes, lease_s=LEASE_S)
    redis_server.wipe()
    for expected in (True, False):
        again = await holds.reannounce(
            opened_call(), scopes, held_nanousd=1_500, lease_s=LEASE_S, checkpoint=checkpoint()
        )
        assert again is expected
    assert await holds.money(ORG, SCOPES[0]) == Money(0, Spent(0, {}))
    await open_shard(holds)
    assert await holds.money(ORG, SCOPES[0]) == Money(1_500, Spent(0, {}))
    hold = await holds.read("req_1", ORG)
    assert hold and (hold.opened, hold.checkpoint) == (opened_call(), checkpoint())
    assert await holds.reannounce(  # too late for the opening, but not lost
        opened_call("req_2"), scopes, held_nanousd=100, lease_s=LEASE_S, checkpoint=None
    )
    assert (await holds.money(ORG, SCOPES[0])).held_nanousd == 1_600
    for rid in ("req_1", "req_2"):
        assert await holds.settle(settled_call(opened_call(rid), 700)) is SettleState.SETTLED
    assert await holds.money(ORG, SCOPES[0]) == Money(0, Spent(1_400, {MONTH: 1_400}))


async def test_state_of_the_former_layout_counts_as_unprimed(redis: Redis) -> None:
    """As a Redis that was not restarted when Sluice was brought up to date."""
    holds = Holds(redis)
    tag, run_id = keys.tag(SHARD), await holds.run_id()
    await redis.set(keys.epoch_key(SHARD), f"open:{run_id}:1")
    await redis.hset(f"{tag}:scope:{SCOPES[0]}", mapping={"held": 1_000, "t": 9_000})
    await redis.hset(f"{tag}:hold:req_1", mapping={"held": 1_000, "s": SCOPES[0]})
    await redis.zadd(f"{tag}:due", {"req_1": 1})
    assert (await holds.shard_epochs())[SHARD] == ShardEpoch("unprimed", None)
    answer = await holds.admit(opened_call("req_2"), unlimited(), lease_s=LEASE_S)
    assert isinstance(answer, Refused) and answer.dimension is Dimension.UNPRIMED
    await open_shard(holds, {SCOPES[0]: Spent(9_000, {MONTH: 9_000})})
    assert await holds.money(ORG, SCOPES[0]) == Money(0, Spent(9_000, {MONTH: 9_000}))
    assert await holds.settle(settled_call(opened_call(), 700)) is SettleState.LOST
    assert await holds.money(ORG, SCOPES[0]) == Money(0, Spent(9_700, {MONTH: 9_700}))
    assert await holds.open_count(SHARD) == 0
    epoch = await redis.get(keys.epoch_key(SHARD))
    assert not epoch.startswith(b"open:")  # so that gateways of the former layout admit nothing
