"""Laws of the rates: what is really used never exceeds burst + rate x time + declared
underestimates, and the scripts compute exactly what gcra.py says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from billing.limits.gcra import (
    MINUTE_US,
    Bucket,
    Fill,
    Wait,
    correct,
    cost_us,
    remaining,
    take,
)
from billing.limits.types import Admitted, Dimension, Refused, ScopeLimits
from tests.billing.calls import opened_call, settled_call
from tests.billing.limits.harness import LEASE_S, SCOPES, open_shard, scope_state, stopped_clock
from tests.redis_server import RedisServer

RATES = st.one_of(st.integers(1, 50), st.integers(1_000, 100_000_000))


@dataclass(frozen=True)
class Step:
    """Time passes; then a call is admitted (or tried), or an open one is settled."""

    after_us: int
    estimate: int
    actual: int
    settles: int | None
    refund: bool


@st.composite
def stories(draw: st.DrawFn) -> tuple[int, int, list[Step]]:
    """A rate, a burst, and steps that keep the bucket near full: whole units pass most often."""
    rate = draw(st.sampled_from([60, 60, 7]) | RATES)
    burst = draw(st.integers(1, 8) | st.integers(1, max(2, rate * 2)))
    unit_us = -(-MINUTE_US // rate)
    steps = st.builds(
        Step,
        after_us=st.integers(0, min(burst, 8)).map(lambda units: units * unit_us)
        | st.integers(0, unit_us * burst),
        estimate=st.integers(0, burst),
        actual=st.just(0) | st.integers(0, burst + burst // 2),
        settles=st.none() | st.integers(0, 5),
        refund=st.booleans(),
    )
    return rate, burst, draw(st.lists(steps, max_size=30))


def takes(estimate: int, after_us: int = 0) -> Step:
    return Step(after_us, estimate, actual=0, settles=None, refund=False)


def gives_back(which: int) -> Step:
    return Step(0, 0, actual=0, settles=which, refund=False)


LATE_REFUND = (60, 10, [takes(10), takes(5, 9_000_000), gives_back(0), takes(10)])
REFUND_AFTER_REFUND = (
    *(60, 20),
    [takes(10), takes(10), gives_back(0), takes(10, 9_000_000), gives_back(0), takes(19)],
)


@example(LATE_REFUND)
@example(REFUND_AFTER_REFUND)
@settings(max_examples=300, deadline=None)
@given(stories())
def test_use_never_exceeds_burst_plus_rate_times_time(story: tuple[int, int, list[Step]]) -> None:
    rate, burst, steps = story
    bucket, now_us = Bucket(), 0
    used: list[list[int]] = []  # [admitted at, units, declared too low]
    running: list[tuple[int, int, int]] = []  # index in used, estimate, mark
    for step in steps:
        now_us += step.after_us
        if step.settles is not None and running:
            index, estimate, mark_us = running.pop(step.settles % len(running))
            delta_us = cost_us(step.actual, rate) - cost_us(estimate, rate)
            bucket = correct(bucket, now_us=now_us, mark_us=mark_us, delta_us=delta_us)
            used[index][1:] = [step.actual, max(0, step.actual - estimate)]
            continue
        taken = take(
            bucket,
            now_us=now_us,
            cost_us=cost_us(step.estimate, rate),
            tolerance_us=cost_us(burst, rate),
        )
        if isinstance(taken, Fill):
            bucket = taken.bucket
            running.append((len(used), step.estimate, taken.mark_us))
            used.append([now_us, step.estimate, 0])
    for first in range(len(used)):
        units = declared_low = 0
        for at_us, amount, low in used[first:]:
            units += amount
            declared_low += low
            elapsed_us = at_us - used[first][0] + 1
            assert (units - declared_low - burst) * MINUTE_US <= rate * elapsed_us


@settings(max_examples=200, deadline=None)
@given(RATES, st.integers(1, 1000), st.integers(1, 1000), st.integers(0, 10**9))
def test_a_wait_is_exact(rate: int, burst: int, units: int, now_us: int) -> None:
    tolerance_us = cost_us(burst, rate)
    full = Bucket(now_us + tolerance_us)
    cost = cost_us(min(units, burst), rate)
    waits = take(full, now_us=now_us, cost_us=cost, tolerance_us=tolerance_us)
    assert isinstance(waits, Wait)
    later_us = now_us + waits.wait_us
    for at_us, admitted in ((later_us - 1, False), (later_us, True)):
        answer = take(full, now_us=at_us, cost_us=cost, tolerance_us=tolerance_us)
        assert isinstance(answer, Fill) is admitted


@settings(max_examples=200, deadline=None)
@given(RATES, st.integers(1, 1000), st.integers(0, 10**9))
def test_what_remains_fits_and_one_more_does_not(rate: int, burst: int, level_us: int) -> None:
    tolerance_us = cost_us(burst, rate)
    left = remaining(level_us=level_us, tolerance_us=tolerance_us, per_minute=rate)
    bucket = Bucket(level_us)

    def fits(units: int) -> bool:
        cost = cost_us(units, rate)
        return isinstance(take(bucket, now_us=0, cost_us=cost, tolerance_us=tolerance_us), Fill)

    assert left == 0 or fits(left)
    assert not fits(left + 1) or cost_us(left + 1, rate) + level_us == tolerance_us


def test_the_smallest_debt_is_a_debt_and_the_smallest_refund_one() -> None:
    assert correct(Bucket(0), now_us=5, mark_us=0, delta_us=1) == Bucket(6)
    assert correct(Bucket(9), now_us=5, mark_us=9, delta_us=-1) == Bucket(8, refunded_us=1)


@settings(max_examples=40, deadline=None)
@given(stories())
def test_the_scripts_compute_what_gcra_says(
    law_server: RedisServer, runner: asyncio.Runner, story: tuple[int, int, list[Step]]
) -> None:
    runner.run(compare(law_server, *story))


async def compare(server: RedisServer, rate: int, burst: int, steps: list[Step]) -> None:
    redis = server.client()
    await redis.flushall()
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    requests_burst = 3
    scopes = [
        ScopeLimits(scope=SCOPES[0], tokens_per_minute=rate, token_burst=burst),
        ScopeLimits(scope=SCOPES[1], requests_per_minute=rate, request_burst=requests_burst),
        ScopeLimits(scope=SCOPES[2]),
    ]
    tokens, requests = Bucket(), Bucket()
    running: list[tuple[str, int, int, int]] = []
    for number, step in enumerate(steps):
        await clock.advance(step.after_us)
        now_us = clock.now_us
        if step.settles is not None and running:
            rid, estimate, token_mark, request_mark = running.pop(step.settles % len(running))
            actual = 0 if step.refund else step.actual
            delta_us = cost_us(actual, rate) - cost_us(estimate, rate)
            tokens = correct(tokens, now_us=now_us, mark_us=token_mark, delta_us=delta_us)
            if step.refund:
                back_us = -cost_us(1, rate)
                requests = correct(requests, now_us=now_us, mark_us=request_mark, delta_us=back_us)
            ended = settled_call(opened_call(rid), 0, input=actual, output=0)
            await holds.settle(ended, refund=step.refund)
        else:
            call = opened_call(f"req_{number}", tokens_estimate=step.estimate)
            answer = await holds.admit(call, scopes, lease_s=LEASE_S)
            took_tokens = take(
                tokens,
                now_us=now_us,
                cost_us=cost_us(step.estimate, rate),
                tolerance_us=cost_us(burst, rate),
            )
            took_request = take(
                requests,
                now_us=now_us,
                cost_us=cost_us(1, rate),
                tolerance_us=cost_us(requests_burst, rate),
            )
            if isinstance(took_tokens, Fill) and isinstance(took_request, Fill):
                assert isinstance(answer, Admitted)
                tokens, requests = took_tokens.bucket, took_request.bucket
                running.append((call.rid, step.estimate, took_tokens.mark_us, took_request.mark_us))
            else:
                waits = {
                    dimension: taken.wait_us
                    for dimension, taken in (
                        (Dimension.TOKENS, took_tokens),
                        (Dimension.REQUESTS, took_request),
                    )
                    if isinstance(taken, Wait)
                }
                assert isinstance(answer, Refused)
                assert answer.dimension in waits
                assert answer.retry_after_ms == -(-max(waits.values()) // 1000)
        assert (await scope_state(redis, SCOPES[0])).tokens == tokens
        assert (await scope_state(redis, SCOPES[1])).requests == requests
    await redis.aclose()
