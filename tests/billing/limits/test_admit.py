from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.types import (
    Admitted,
    Dimension,
    Hold,
    HoldState,
    RateState,
    Refused,
    ScopeLimits,
    SettleState,
    Spent,
)
from billing.types import decode_opened
from tests.billing.calls import opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    MONTH,
    ORG,
    SCOPES,
    SHARD,
    digest,
    limited,
    open_shard,
    scope_state,
    stopped_clock,
    unlimited,
)

MINUTE_US = 60_000_000
RATES = (
    *("requests_per_minute", "tokens_per_minute", "input_tokens_per_minute"),
    *("output_tokens_per_minute", "concurrency"),
)


async def test_an_unprimed_shard_admits_nothing(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    answer = await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    assert answer == Refused(SCOPES[0], Dimension.UNPRIMED, 1000)
    await holds.begin_priming(SHARD, f"{await holds.run_id()}:1")
    answer = await holds.admit(opened_call(), unlimited(), lease_s=LEASE_S)
    assert isinstance(answer, Refused)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("narrow", [False, True])
async def test_an_unprimed_shard_says_so_whatever_limits_were_asked(
    redis: Redis, rate: str, narrow: bool
) -> None:
    """Its answer has no levels of any bucket: reading them was a crash."""
    holds, _ = await stopped_clock(redis)
    asked = [*unlimited(), ScopeLimits(scope=f"{SCOPES[2]}/model:m", is_narrow=True)]
    asked = [
        replace(limits, **{rate: 1000} if limits.is_narrow == narrow else {}) for limits in asked
    ]
    answer = await holds.admit(opened_call(), asked, lease_s=LEASE_S)
    assert answer == Refused(SCOPES[0], Dimension.UNPRIMED, 1000)


async def test_admission_holds_money_takes_leases_and_writes_a_reserved_record(
    redis: Redis,
) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    call = opened_call()
    assert await holds.admit(call, unlimited(), lease_s=LEASE_S) == Admitted("new")
    due_ms = clock.now_ms + int(LEASE_S * 1000)
    for scope in SCOPES:
        assert (await holds.money(ORG, scope)).held_nanousd == call.hold_nanousd
        assert (await scope_state(redis, scope)).running == 1
    assert await holds.read(call.rid, ORG) == Hold(
        rid=call.rid,
        state=HoldState.HELD,
        held_nanousd=call.hold_nanousd,
        opened=call,
        due_ms=due_ms,
    )
    [(_, record)] = await redis.xrange(keys.usage_key(SHARD))
    assert (record[b"k"], record[b"r"]) == (b"reserved", call.rid.encode())
    assert decode_opened(record[b"p"]) == call


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize(
    ("limits", "dimension", "retry_after_ms"),
    [
        ({"requests_per_minute": 2, "request_burst": 1}, Dimension.REQUESTS, 30_000),
        ({"tokens_per_minute": 600, "token_burst": 300}, Dimension.TOKENS, 30_000),
        ({"concurrency": 1}, Dimension.CONCURRENCY, 1_000),
        ({"budget_nanousd": 1_999}, Dimension.BUDGET, None),
        ({"budget_nanousd": 1_999, "budget_window": "month"}, Dimension.BUDGET, None),
        ({"ceiling_nanousd": 1_999}, Dimension.CREDIT, None),
        ({"tokens_per_minute": 299}, Dimension.TOO_LARGE, None),
        ({"requests_per_minute": 0}, Dimension.REQUESTS, 60_000),
        ({"tokens_per_minute": 0}, Dimension.TOKENS, 60_000),
    ],
)
async def test_a_refusal_names_scope_and_dimension_and_writes_nothing(
    redis: Redis,
    position: int,
    limits: dict[str, object],
    dimension: Dimension,
    retry_after_ms: int | None,
) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(SCOPES[position], **limits)
    await holds.admit(opened_call("req_first"), unlimited(), lease_s=LEASE_S)
    await holds.settle(settled_call(opened_call("req_first"), 0))
    await holds.admit(opened_call("req_1"), scopes, lease_s=LEASE_S)
    before = await digest(redis)
    answer = await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S)
    assert answer == Refused(SCOPES[position], dimension, retry_after_ms)
    assert await digest(redis) == before


async def test_of_two_refusals_the_longer_wait_is_named_and_money_first(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    short = limited(SCOPES[0], requests_per_minute=60, request_burst=1)[0]
    long = limited(SCOPES[2], tokens_per_minute=300)[2]
    poor = limited(SCOPES[1], budget_nanousd=1_000)[1]
    scopes = [short, unlimited()[1], long]
    await holds.admit(opened_call("req_1"), scopes, lease_s=LEASE_S)
    answer = await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S)
    assert answer == Refused(SCOPES[2], Dimension.TOKENS, 60_000)
    answer = await holds.admit(opened_call("req_3"), [short, poor, long], lease_s=LEASE_S)
    assert answer == Refused(SCOPES[1], Dimension.BUDGET, None)


async def test_admitting_again_is_told_and_changes_nothing(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(requests_per_minute=60, tokens_per_minute=6000, concurrency=1)
    call = opened_call()
    first = await holds.admit(call, scopes, lease_s=LEASE_S)
    before = await digest(redis)
    again = await holds.admit(call, scopes, lease_s=LEASE_S)
    assert isinstance(first, Admitted) and isinstance(again, Admitted)
    assert again == msgspec.structs.replace(first, state="held")
    assert await digest(redis) == before
    await holds.settle(settled_call(call))
    again = await holds.admit(call, scopes, lease_s=LEASE_S)
    assert isinstance(again, Admitted) and again.state == "settled"
    assert (await holds.money(ORG, SCOPES[0])).held_nanousd == 0


async def test_headers_tell_the_tightest_scope(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = [
        replace(unlimited()[0], requests_per_minute=600),
        replace(unlimited()[1], requests_per_minute=60, tokens_per_minute=60_000),
        replace(unlimited()[2], tokens_per_minute=6_000, token_burst=1_000),
    ]
    answer = await holds.admit(opened_call(), scopes, lease_s=LEASE_S)
    assert isinstance(answer, Admitted)
    assert answer.rates == {
        Dimension.REQUESTS: RateState(SCOPES[1], 60, 59, 1000),
        Dimension.TOKENS: RateState(SCOPES[2], 6_000, 700, 3000),
    }
    await clock.advance(MINUTE_US)
    answer = await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S)
    assert isinstance(answer, Admitted)
    assert answer.rates[Dimension.TOKENS].remaining == 700


async def test_an_expired_lease_frees_its_slot_but_the_hold_stays_due(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(concurrency=1)
    await holds.admit(opened_call("req_1"), scopes, lease_s=LEASE_S)
    assert isinstance(await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S), Refused)
    await clock.advance(int(LEASE_S * 1e6) + 1000)
    assert isinstance(await holds.admit(opened_call("req_2"), scopes, lease_s=LEASE_S), Admitted)
    assert [hold.rid for hold in await holds.due(SHARD, limit=9, now_ms=clock.now_ms)] == ["req_1"]


async def test_every_lapsed_lease_frees_a_slot_while_its_hold_stays_open(redis: Redis) -> None:
    """More than one look at the lapsed ones takes, and of more than one organization's scopes."""
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    count = 1_100
    for number in range(count):
        call = opened_call(f"req_{number}")
        assert isinstance(await holds.admit(call, unlimited(), lease_s=LEASE_S), Admitted)
    await clock.advance(int(LEASE_S * 1e6) + 1000)
    for number in range(2):
        call = opened_call(f"req_new_{number}")
        scopes = limited(concurrency=number + 1)
        assert isinstance(await holds.admit(call, scopes, lease_s=LEASE_S), Admitted)
        answer = await holds.admit(opened_call("req_over"), scopes, lease_s=LEASE_S)
        assert answer == Refused(SCOPES[0], Dimension.CONCURRENCY, 1_000)
    assert await holds.open_count(SHARD) == count + 2
    await holds.settle(settled_call(opened_call("req_new_0")))
    await holds.settle(settled_call(opened_call("req_0")))
    answer = await holds.admit(opened_call("req_next"), limited(concurrency=2), lease_s=LEASE_S)
    assert isinstance(answer, Admitted)
    answer = await holds.admit(opened_call("req_over"), limited(concurrency=2), lease_s=LEASE_S)
    assert isinstance(answer, Refused)


async def test_a_budget_counts_what_is_spent_in_its_window(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds, {SCOPES[2]: Spent(10_000, {MONTH: 4_000, "202001": 6_000})})
    total = limited(SCOPES[2], budget_nanousd=11_000)
    month = limited(SCOPES[2], budget_nanousd=5_000, budget_window="month")
    for number, scopes in enumerate((total, month)):
        call = opened_call(f"req_{number}")
        assert isinstance(await holds.admit(call, scopes, lease_s=LEASE_S), Admitted)
        await holds.settle(settled_call(call, 0))
        over = opened_call(f"req_over_{number}", hold_nanousd=1_001)
        answer = await holds.admit(over, scopes, lease_s=LEASE_S)
        assert isinstance(answer, Refused) and answer.dimension is Dimension.BUDGET


@pytest.mark.parametrize("amount", [-1, 2**53 + 1])
async def test_an_amount_the_scripts_cannot_carry_is_an_error(redis: Redis, amount: int) -> None:
    holds, _ = await stopped_clock(redis)
    with pytest.raises(ValueError, match="amount"):
        await holds.admit(opened_call(hold_nanousd=amount), unlimited(), lease_s=LEASE_S)


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_any_number_of_scopes_is_admitted_and_settled(redis: Redis, count: int) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = [
        ScopeLimits(scope=f"scope:{n}", requests_per_minute=60 if n % 2 else None)
        for n in range(count)
    ]
    call = opened_call()
    assert isinstance(await holds.admit(call, scopes, lease_s=LEASE_S), Admitted)
    assert (await holds.money(ORG, scopes[-1].scope)).held_nanousd == call.hold_nanousd
    await holds.settle(settled_call(call, 700))
    for limits in scopes:
        money = await holds.money(ORG, limits.scope)
        assert (money.held_nanousd, money.spent.total_nanousd) == (0, 700)


@pytest.mark.parametrize("burst", [None, 1, 10**15])
async def test_limits_of_any_size_can_be_set(redis: Redis, burst: int | None) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(requests_per_minute=1, request_burst=burst, tokens_per_minute=10**13)
    assert isinstance(await holds.admit(opened_call(), scopes, lease_s=LEASE_S), Admitted)
    assert await holds.settle(settled_call(opened_call())) is SettleState.SETTLED


async def test_a_ceiling_counts_what_was_ever_spent_and_what_is_held(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    earlier = Spent(3 * 10**18 + 7, {MONTH: 0})
    await open_shard(holds, {SCOPES[2]: earlier})
    ceiling = limited(SCOPES[2], ceiling_nanousd=earlier.total_nanousd + 10**6)
    dear = opened_call("req_1", hold_nanousd=2 * 10**6)
    answer = await holds.admit(dear, ceiling, lease_s=LEASE_S)
    assert answer == Refused(SCOPES[2], Dimension.CREDIT, None)
    cheap = opened_call("req_2", hold_nanousd=5 * 10**5)
    assert isinstance(await holds.admit(cheap, ceiling, lease_s=LEASE_S), Admitted)
    await holds.settle(settled_call(cheap, 4 * 10**5))
    more = opened_call("req_3", hold_nanousd=7 * 10**5)
    answer = await holds.admit(more, ceiling, lease_s=LEASE_S)
    assert answer == Refused(SCOPES[2], Dimension.CREDIT, None)


async def test_below_zero_nothing_is_admitted_not_even_what_is_free(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    free = opened_call(hold_nanousd=0)
    answer = await holds.admit(free, limited(ceiling_nanousd=-1), lease_s=LEASE_S)
    assert answer == Refused(SCOPES[0], Dimension.CREDIT, None)
    assert isinstance(
        await holds.admit(free, limited(ceiling_nanousd=0), lease_s=LEASE_S), Admitted
    )
