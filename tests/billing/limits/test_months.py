"""What was spent by month: the latest month stands in a scope's state, earlier ones beside it."""

from __future__ import annotations

from itertools import permutations

import pytest
from redis.asyncio import Redis

from billing.limits.holds import Holds
from billing.limits.types import (
    Admitted,
    Dimension,
    Money,
    Refused,
    Renewed,
    RenewRefused,
    SettleState,
    Spent,
)
from billing.types import OpenedCall, UsageSource, utc_month
from tests.billing.calls import ADMITTED_US, checkpoint, opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    ORG,
    SCOPES,
    limited,
    open_shard,
    scope_state,
    stopped_clock,
    unlimited,
)

MONTH_US = 31 * 86_400 * 1_000_000
MONTHS = [utc_month(ADMITTED_US + n * MONTH_US) for n in range(3)]


def call_in(month: int, rid: str) -> OpenedCall:
    return opened_call(rid, admitted_us=ADMITTED_US + month * MONTH_US, month=MONTHS[month])


async def spend(holds: Holds, month: int, amount: int, rid: str) -> None:
    call = call_in(month, rid)
    assert isinstance(await holds.admit(call, unlimited(), lease_s=LEASE_S), Admitted)
    assert await holds.settle(settled_call(call, amount)) is SettleState.SETTLED


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("amount", [700, 2**53 - 9])
async def test_months_add_up_in_whatever_order_their_calls_end(
    redis: Redis, order: tuple[int, ...], amount: int
) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    for turn in range(2):
        for month in order:
            await spend(holds, month, amount + month + turn, f"req_{turn}_{month}")
    months = {MONTHS[month]: 2 * (amount + month) + 1 for month in range(3)}
    for scope in SCOPES:
        assert await holds.money(ORG, scope) == Money(0, Spent(6 * amount + 9, months))
        assert (await scope_state(redis, scope)).month == int(MONTHS[2])


async def test_a_month_beyond_the_exact_range_of_doubles_stays_exact(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    amounts = [2**53 - 2, 2**53 - 1, 2**53]
    for number, amount in enumerate(amounts):
        await spend(holds, 0, amount, f"req_{number}")
    await spend(holds, 1, 1, "req_next_month")
    spent = Spent(sum(amounts) + 1, {MONTHS[0]: sum(amounts), MONTHS[1]: 1})
    assert await holds.money(ORG, SCOPES[2]) == Money(0, spent)


async def test_an_exact_record_corrects_the_month_the_call_was_admitted_in(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    late = call_in(0, "req_late")
    await holds.admit(late, unlimited(), lease_s=LEASE_S)
    await holds.settle(settled_call(late, 400, source=UsageSource.ESTIMATED))
    await spend(holds, 1, 50, "req_next_month")
    assert await holds.settle(settled_call(late, 300)) is SettleState.CORRECTED
    spent = Spent(350, {MONTHS[0]: 300, MONTHS[1]: 50})
    assert await holds.money(ORG, SCOPES[0]) == Money(0, spent)


@pytest.mark.parametrize(("month", "left"), [(0, 4_000), (1, 7_000), (2, 10_000)])
async def test_g30_a_budget_of_a_month_counts_the_month_of_the_call(
    redis: Redis, month: int, left: int
) -> None:
    """Also of a month before the latest, as a gateway with a slow clock asks for."""
    holds, _ = await stopped_clock(redis)
    months = {MONTHS[0]: 6_000, MONTHS[1]: 3_000}
    await open_shard(holds, {SCOPES[1]: Spent(9_000, months)})
    scopes = limited(SCOPES[1], budget_nanousd=10_000, budget_window="month")
    over = opened_call("req_over", month=MONTHS[month], hold_nanousd=left + 1)
    assert await holds.admit(over, scopes, lease_s=LEASE_S) == Refused(
        SCOPES[1], Dimension.BUDGET, None
    )
    fits = opened_call("req_fits", month=MONTHS[month], hold_nanousd=left - 10)
    assert isinstance(await holds.admit(fits, scopes, lease_s=LEASE_S), Admitted)
    for topup, answer in (
        (11, RenewRefused(SCOPES[1], Dimension.BUDGET, left - 10)),
        (10, Renewed(left)),
    ):
        assert answer == await holds.renew(
            "req_fits", ORG, lease_s=LEASE_S, topup_nanousd=topup, checkpoint=checkpoint()
        )


async def test_priming_replaces_every_month(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    for month in range(3):
        await spend(holds, month, 100, f"req_{month}")
    sums = Spent(2**60 + 5, {MONTHS[0]: 5, MONTHS[1]: 2**60})
    await open_shard(holds, {SCOPES[2]: sums})
    assert await holds.money(ORG, SCOPES[2]) == Money(0, sums)
    assert await holds.money(ORG, SCOPES[0]) == Money(0, Spent(0, {}))
    await spend(holds, 2, 7, "req_after")
    spent = Spent(2**60 + 12, {**sums.months, MONTHS[2]: 7})
    assert await holds.money(ORG, SCOPES[2]) == Money(0, spent)
