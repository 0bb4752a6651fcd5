"""Limits of input and output tokens, of one model and of one end user: set, they bind like any
other; not set, they cost nothing; idle, they are forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.types import (
    Admitted,
    Dimension,
    Lost,
    RateState,
    Refused,
    ScopeLimits,
    SettleState,
)
from billing.types import UsageSource
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import (
    LEASE_S,
    ORG,
    SCOPES,
    SHARD,
    digest,
    limited,
    open_shard,
    stopped_clock,
    unlimited,
)

ALICE, BOB = "org:org_1/user:alice", "org:org_1/user:bob"
TALE = "key:key_1/model:tale"


def beside(scope: str, **limits: Any) -> list[ScopeLimits]:
    return [*unlimited(), ScopeLimits(scope=scope, is_narrow=True, **limits)]


async def admit(holds: Any, rid: str, scopes: list[ScopeLimits], **call: Any) -> Any:
    return await holds.admit(opened_call(rid, **call), scopes, lease_s=LEASE_S)


async def meters(redis: Redis) -> list[bytes]:
    return sorted(await redis.keys(f"{keys.key_prefix(SHARD)}meter:*"))


@pytest.mark.parametrize("scope", [*SCOPES, ALICE, TALE])
@pytest.mark.parametrize(
    ("limits", "dimension", "wait_ms"),
    [
        ({"input_tokens_per_minute": 88, "input_token_burst": 44}, Dimension.INPUT_TOKENS, 30_000),
        ({"output_tokens_per_minute": 256}, Dimension.OUTPUT_TOKENS, 60_000),
    ],
)
async def test_input_and_output_tokens_are_limits_of_their_own(
    redis: Redis, scope: str, limits: dict[str, int], dimension: Dimension, wait_ms: int
) -> None:
    """44 tokens of the prompt and 256 of output are declared."""
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = limited(scope, **limits) if scope in SCOPES else beside(scope, **limits)
    assert isinstance(await admit(holds, "req_1", scopes), Admitted)
    before = await digest(redis)
    assert await admit(holds, "req_2", scopes) == Refused(scope, dimension, wait_ms)
    assert await digest(redis) == before, "a refusal writes nothing"
    await clock.advance(wait_ms * 1000)
    assert isinstance(await admit(holds, "req_2", scopes), Admitted)


@pytest.mark.parametrize(
    ("limits", "dimension", "wait_ms"),
    [
        ({"requests_per_minute": 2, "request_burst": 1}, Dimension.REQUESTS, 30_000),
        ({"tokens_per_minute": 600, "token_burst": 300}, Dimension.TOKENS, 30_000),
        ({"concurrency": 1}, Dimension.CONCURRENCY, 1_000),
        ({"requests_per_minute": 0}, Dimension.REQUESTS, 60_000),
        ({"concurrency": 0}, Dimension.CONCURRENCY, 1_000),
        ({"tokens_per_minute": 299}, Dimension.TOO_LARGE, None),
        ({"output_tokens_per_minute": 255}, Dimension.TOO_LARGE, None),
    ],
)
async def test_every_limit_of_a_narrow_scope_binds_it_and_no_other(
    redis: Redis, limits: dict[str, int], dimension: Dimension, wait_ms: int | None
) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    await admit(holds, "req_1", beside(ALICE, **limits))
    answer = await admit(holds, "req_2", beside(ALICE, **limits))
    assert answer == Refused(ALICE, dimension, wait_ms)
    if 0 not in limits.values() and wait_ms is not None:
        assert isinstance(await admit(holds, "req_2", beside(BOB, **limits)), Admitted)


async def test_g28_refusal_by_one_meter_burns_nothing_of_any_other(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    roomy = {"requests_per_minute": 60, "input_tokens_per_minute": 6_000, "concurrency": 9}
    scopes = [
        *limited(requests_per_minute=60, output_tokens_per_minute=60_000, concurrency=9),
        ScopeLimits(scope=TALE, is_narrow=True, **roomy),
        ScopeLimits(scope=ALICE, is_narrow=True, concurrency=1),
    ]
    first = await admit(holds, "req_1", scopes)
    before = await digest(redis)
    for number in range(3):
        answer = await admit(holds, f"req_over_{number}", scopes)
        assert answer == Refused(ALICE, Dimension.CONCURRENCY, 1_000)
        assert answer.rates == first.rates, "what the refused call would have taken is left"
    assert await digest(redis) == before


async def test_g31_what_remains_falls_with_every_call(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = [
        *limited(requests_per_minute=60, input_tokens_per_minute=6_000),
        ScopeLimits(scope=ALICE, is_narrow=True, requests_per_minute=10, tokens_per_minute=9_000),
    ]
    seen = []
    for number in range(3):
        rates = (await admit(holds, f"req_{number}", scopes)).rates
        assert rates[Dimension.REQUESTS].scope == ALICE, "the tightest scope is told"
        seen.append(
            [rates[d].remaining for d in (Dimension.REQUESTS, Dimension.TOKENS)]
            + [rates[Dimension.INPUT_TOKENS].remaining]
        )
    assert seen == [[9, 8_700, 5_956], [8, 8_400, 5_912], [7, 8_100, 5_868]]


async def test_settling_corrects_every_meter_by_what_was_used(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    per_minute = {"input_tokens_per_minute": 600, "output_tokens_per_minute": 600}
    scopes = beside(ALICE, tokens_per_minute=600, **per_minute)
    call = opened_call("req_1")
    await holds.admit(call, scopes, lease_s=LEASE_S)
    await holds.settle(settled_call(call, 0, input=40, output=100))

    async def left() -> list[int]:
        rates = (await admit(holds, "req_probe", scopes, tokens_estimate=0)).rates
        await holds.settle(settled_call(opened_call("req_probe"), 0, input=0, output=0))
        dimensions = (Dimension.TOKENS, Dimension.INPUT_TOKENS, Dimension.OUTPUT_TOKENS)
        return [rates[dimension].remaining for dimension in dimensions]

    assert await left() == [460, 560, 500], "what was declared too much has come back"
    await clock.advance(60_000_000)
    low = opened_call("req_low", tokens_estimate=45)
    await holds.admit(low, scopes, lease_s=LEASE_S)
    await holds.settle(settled_call(low, 0, input=44, output=700))
    await redis.delete(keys.call_key(SHARD, "req_probe"))
    refused = await admit(holds, "req_after", scopes, tokens_estimate=1)
    assert refused == Refused(ALICE, Dimension.TOKENS, 14_500), "too little is a debt"


async def test_refund_gives_back_the_request_and_every_token(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    one = {"requests_per_minute": 1, "input_tokens_per_minute": 44, "output_tokens_per_minute": 256}
    scopes = beside(ALICE, concurrency=1, **one)
    for number in range(3):
        call = opened_call(f"req_{number}")
        assert isinstance(await holds.admit(call, scopes, lease_s=LEASE_S), Admitted)
        nothing = settled_call(call, 0, input=0, output=0)
        assert await holds.settle(nothing, refund=True) is SettleState.SETTLED
    assert not await meters(redis), "what is empty is not kept"


async def test_estimate_that_is_corrected_later_corrects_the_meters_again(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = beside(ALICE, output_tokens_per_minute=1_000)
    call = opened_call()
    await holds.admit(call, scopes, lease_s=LEASE_S)
    guess = settled_call(call, 0, input=44, output=100, source=UsageSource.ESTIMATED)
    assert await holds.settle(guess) is SettleState.SETTLED
    assert await holds.settle(settled_call(call, 0, output=300)) is SettleState.CORRECTED
    rates = (await admit(holds, "req_2", scopes, tokens_estimate=0)).rates
    assert rates == {Dimension.OUTPUT_TOKENS: RateState(ALICE, 1_000, 700, 18_000)}


async def test_g27_slot_of_a_lost_call_is_free_when_its_lease_lapses(redis: Redis) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = beside(ALICE, concurrency=1)
    await admit(holds, "req_lost", scopes)
    await clock.advance(int(LEASE_S * 1e6) - 1000)
    renewed = await holds.renew(
        "req_lost", ORG, lease_s=LEASE_S, topup_nanousd=0, checkpoint=checkpoint()
    )
    assert not isinstance(renewed, Lost)
    await clock.advance(int(LEASE_S * 1e6) - 1000)
    assert isinstance(await admit(holds, "req_2", scopes), Refused), "it was renewed"
    await clock.advance(2000)
    assert isinstance(await admit(holds, "req_2", scopes), Admitted)
    await holds.settle(settled_call(opened_call("req_lost")))
    assert isinstance(await admit(holds, "req_3", scopes), Refused), "only its own slot"


async def test_slot_of_a_call_that_is_announced_again_is_taken(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    scopes = beside(ALICE, concurrency=1, requests_per_minute=600)
    call = opened_call()
    assert await holds.reannounce(
        call, scopes, held_nanousd=9, lease_s=LEASE_S, checkpoint=checkpoint()
    )
    assert isinstance(await admit(holds, "req_2", scopes), Refused)
    assert await holds.settle(settled_call(call, 1)) is SettleState.SETTLED
    assert isinstance(await admit(holds, "req_2", scopes), Admitted)


async def test_meters_of_idle_end_users_are_forgotten(redis: Redis) -> None:
    """By Redis' own clock: a flood of end users leaves nothing for longer than a bucket leaks."""
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    for number in range(50):
        scopes = beside(f"org:org_1/user:{number}", requests_per_minute=6_000)
        await admit(holds, f"req_{number}", scopes)
        await holds.settle(settled_call(opened_call(f"req_{number}")))
    assert len(await meters(redis)) <= 50
    await asyncio.sleep(0.05)
    assert not await meters(redis)
    assert len(await redis.smembers(keys.scopes_key(SHARD))) == len(SCOPES)


async def test_a_bucket_begun_anew_gives_nothing_back_to_calls_of_its_former_life(
    redis: Redis,
) -> None:
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    scopes = beside(ALICE, tokens_per_minute=600)
    old = opened_call("req_old")
    await holds.admit(old, scopes, lease_s=LEASE_S)
    await redis.delete(*await meters(redis))
    await clock.advance(1_000_000)
    await admit(holds, "req_new", scopes)
    await holds.settle(settled_call(old, 0, input=0, output=0), refund=True)
    rates = (await admit(holds, "req_probe", scopes, tokens_estimate=0)).rates
    assert rates[Dimension.TOKENS].remaining == 300, "what the new call took is still taken"


async def test_without_meters_nothing_is_kept_of_them(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    await admit(holds, "req_1", limited(requests_per_minute=1, tokens_per_minute=600))
    await holds.settle(settled_call(opened_call("req_1")))
    assert not await meters(redis)


# --- the limits of a model that a call goes on to -----------------------------------------------


@pytest.mark.parametrize("refund", [True, False], ids=["refunded", "used"])
async def test_limits_that_an_open_hold_takes_are_settled_with_it(
    redis: Redis, refund: bool
) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    rates = {"requests_per_minute": 1, "tokens_per_minute": 300, "concurrency": 1}
    of_tale = [ScopeLimits(scope=TALE, is_narrow=True, **rates)]
    first, second = opened_call("req_1"), opened_call("req_2")
    for call in (first, second):
        await holds.admit(call, beside(ALICE, concurrency=9), lease_s=LEASE_S)
    assert await holds.extend(first, of_tale) == Admitted("new")
    before = await digest(redis)
    assert await holds.extend(first, of_tale) == Admitted("held"), "they are taken once"
    refused = await holds.extend(second, of_tale)
    assert isinstance(refused, Refused) and refused.scope == TALE
    assert await digest(redis) == before, "a refusal writes nothing"
    used = {} if refund else {"input": 44, "output": 200}
    await holds.settle(settled_call(first, 0, **used), refund=refund)
    answer = await holds.extend(second, of_tale)
    if refund:
        assert answer == Admitted("new")
    else:
        assert answer == Refused(TALE, Dimension.REQUESTS, 60_000)
    await holds.settle(settled_call(second, 0), refund=True)
    assert await holds.extend(second, of_tale) == Lost(settled=True)
    left = await meters(redis)
    assert all(b"#concurrency" not in name for name in left), "and no slot is left"
    assert len(left) == (0 if refund else 2)


async def test_what_a_call_can_never_have_of_a_model_is_not_asked_for(redis: Redis) -> None:
    holds, _ = await stopped_clock(redis)
    await open_shard(holds)
    small = [ScopeLimits(scope=TALE, is_narrow=True, tokens_per_minute=299)]
    call = opened_call("req_1")
    await holds.admit(call, unlimited(), lease_s=LEASE_S)
    refused = await holds.extend(call, small)
    assert isinstance(refused, Refused) and refused.dimension is Dimension.TOO_LARGE
    assert await holds.extend(call, small, unasked=True) == Admitted("new")
    many = [
        ScopeLimits(scope=f"{TALE}{number}", is_narrow=True, concurrency=1) for number in range(255)
    ]
    assert await holds.extend(call, many) == Lost(settled=True)
    assert await holds.extend(call, many[1:]) == Admitted("new")
    await holds.settle(settled_call(call, 0), refund=True)
    assert not await meters(redis)
