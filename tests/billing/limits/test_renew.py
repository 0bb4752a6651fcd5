from __future__ import annotations

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.types import Admitted, Dimension, Lost, Refused, Renewed, RenewRefused
from billing.types import UsageSource
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    ORG,
    SCOPES,
    SHARD,
    limited,
    open_shard,
    stopped_clock,
    unlimited,
)


async def test_renewal_extends_lease_and_due_and_stores_the_checkpoint(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    await clock.advance(5_000_000)
    seen = checkpoint(1)
    answer = await holds.renew("req_1", ORG, lease_s=LEASE_S, topup_nanousd=0, checkpoint=seen)
    assert answer == Renewed(1_000)
    due_ms = clock.now_ms + int(LEASE_S * 1000)
    hold = await holds.read("req_1", ORG)
    assert hold and (hold.checkpoint, hold.due_ms) == (seen, due_ms)
    assert await redis.zscore(keys.due_key(SHARD), "req_1") == due_ms
    await clock.advance(int(LEASE_S * 1e6))  # past the end of the first lease, not of this one
    for number, scope in enumerate(SCOPES):
        other = opened_call(f"req_other_{number}")
        answer = await holds.admit(other, limited(scope, concurrency=1), lease_s=LEASE_S)
        assert answer == Refused(scope, Dimension.CONCURRENCY, 1_000)
    await clock.advance(1_000)
    for number, scope in enumerate(SCOPES):
        other = opened_call(f"req_other_{number}")
        answer = await holds.admit(other, limited(scope, concurrency=1 + number), lease_s=LEASE_S)
        assert isinstance(answer, Admitted)


async def test_renewing_a_lapsed_lease_takes_its_slot_again(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(concurrency=1)
    await holds.admit(opened_call("req_1"), scopes, lease_s=LEASE_S)
    await clock.advance(int(LEASE_S * 1e6) + 1_000)
    assert isinstance(await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S), Admitted)
    await holds.renew("req_1", ORG, lease_s=LEASE_S, topup_nanousd=0, checkpoint=checkpoint())
    await holds.settle(settled_call(opened_call("req_2")))
    assert isinstance(await holds.admit(opened_call("req_3"), scopes, lease_s=LEASE_S), Refused)
    await holds.settle(settled_call(opened_call("req_1")))
    assert isinstance(await holds.admit(opened_call("req_3"), scopes, lease_s=LEASE_S), Admitted)


async def test_a_top_up_is_held_in_every_scope(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    answer = await holds.renew(
        "req_1", ORG, lease_s=LEASE_S, topup_nanousd=500, checkpoint=checkpoint()
    )
    assert answer == Renewed(1_500)
    for scope in SCOPES:
        assert (await holds.money(ORG, scope)).held_nanousd == 1_500
    await holds.settle(settled_call(opened_call(), 1_500))
    assert (await holds.money(ORG, SCOPES[0])).held_nanousd == 0


@pytest.mark.parametrize(
    ("limits", "dimension"),
    [
        ({"budget_nanousd": 1_499, "budget_window": "total"}, Dimension.BUDGET),
        ({"budget_nanousd": 1_499, "budget_window": "month"}, Dimension.BUDGET),
        ({"ceiling_nanousd": 1_499}, Dimension.CREDIT),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 2])
async def test_a_refused_top_up_still_extends_and_checkpoints(
    redis: Redis, position: int, limits: dict[str, object], dimension: Dimension
) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(SCOPES[position], **limits)
    await holds.admit(opened_call(), scopes, lease_s=LEASE_S)
    await clock.advance(1_000_000)
    answer = await holds.renew(
        "req_1", ORG, lease_s=LEASE_S, topup_nanousd=500, checkpoint=checkpoint(3)
    )
    assert answer == RenewRefused(SCOPES[position], dimension, 1_000)
    hold = await holds.read("req_1", ORG)
    assert hold and hold.checkpoint == checkpoint(3) and hold.held_nanousd == 1_000
    assert hold.due_ms == clock.now_ms + int(LEASE_S * 1000)
    assert (await holds.money(ORG, SCOPES[0])).held_nanousd == 1_000


async def test_while_priming_no_top_up_is_granted_but_the_lease_lives_on(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    await holds.begin_priming(SHARD, f"{await holds.run_id()}:2")
    await clock.advance(1_000_000)
    answer = await holds.renew(
        "req_1", ORG, lease_s=LEASE_S, topup_nanousd=500, checkpoint=checkpoint()
    )
    assert answer == RenewRefused("", Dimension.UNPRIMED, 1_000)
    hold = await holds.read("req_1", ORG)
    assert hold and hold.due_ms == clock.now_ms + int(LEASE_S * 1000)


async def test_renewing_what_is_not_held_says_whether_it_was_settled(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    lost = await holds.renew(
        "req_1", ORG, lease_s=LEASE_S, topup_nanousd=0, checkpoint=checkpoint()
    )
    assert lost == Lost(settled=False)
    await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    await holds.settle(settled_call(opened_call(), 1, source=UsageSource.ESTIMATED))
    lost = await holds.renew(
        "req_1", ORG, lease_s=LEASE_S, topup_nanousd=0, checkpoint=checkpoint()
    )
    assert lost == Lost(settled=True)
