"""Laws of the rates while Redis is away: all processes together admit at most their share of what
the limit allows, whatever they admit, settle and forget."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.limits.contract import Contract, Units
from billing.limits.gcra import MINUTE_US
from billing.limits.local import LocalPermit, LocalRates, NeverHere
from billing.limits.types import Dimension, Refused, ScopeLimits

SHARE = 0.8


@dataclass(frozen=True)
class Step:
    process: int
    after_us: int
    estimate: int
    actual: int
    settles: int | None


STEPS = st.lists(
    st.builds(
        Step,
        process=st.integers(0, 2),
        after_us=st.integers(0, 5_000_000),
        estimate=st.integers(0, 12),
        actual=st.integers(0, 12),
        settles=st.none() | st.integers(0, 9),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(rate=st.integers(1, 300), burst=st.integers(1, 60), steps=STEPS)
def test_processes_together_admit_at_most_their_share(
    rate: int, burst: int, steps: list[Step]
) -> None:
    limits = ScopeLimits(scope="org:o", output_tokens_per_minute=rate, output_token_burst=burst)
    contract = Contract([limits])
    processes = [LocalRates(share=SHARE, buckets_max=9) for _ in range(3)]
    used: list[list[int]] = []  # [admitted at, units, declared too low]
    open_calls: list[tuple[int, int, LocalPermit, int]] = []
    now_us = 0
    for step in steps:
        now_us += step.after_us
        if step.settles is not None and open_calls:
            index, process, permit, estimate = open_calls.pop(step.settles % len(open_calls))
            processes[process].settle(permit, Units(0, step.actual), refund=False, now_us=now_us)
            used[index][1:] = [step.actual, max(0, step.actual - estimate)]
            continue
        try:
            permit_or_no = processes[step.process].admit(
                contract, Units(0, step.estimate), processes=3, now_us=now_us
            )
        except NeverHere:
            assert step.estimate > burst * SHARE / 3 - 1
            continue
        if isinstance(permit_or_no, LocalPermit):
            open_calls.append((len(used), step.process, permit_or_no, step.estimate))
            used.append([now_us, step.estimate, 0])
    for first in range(len(used)):
        units = sum(amount - low for _, amount, low in used[first:])
        elapsed_us = used[-1][0] - used[first][0] + 3
        assert units * MINUTE_US <= SHARE * (burst * MINUTE_US + rate * elapsed_us) + 1e-3


def test_g34_memory_of_a_process_is_bounded_whoever_calls() -> None:
    rates = LocalRates(share=SHARE, buckets_max=100)
    for user in range(1_000):
        scope = ScopeLimits(scope=f"org:o/user:{user}", is_narrow=True, requests_per_minute=60)
        rates.admit(Contract([scope]), Units(1, 1), processes=1, now_us=user)
    assert len(rates) == 100


def test_refusal_takes_of_no_bucket_and_refund_gives_all_of_it_back() -> None:
    rates = LocalRates(share=1.0, buckets_max=9)
    roomy = ScopeLimits(scope="org:o", requests_per_minute=60, request_burst=3)
    small = ScopeLimits(scope="key:k", tokens_per_minute=10)
    both = Contract([roomy, small])
    permit = rates.admit(both, Units(4, 6), processes=1, now_us=0)
    assert isinstance(permit, LocalPermit)
    assert permit.rates[Dimension.REQUESTS].remaining == 2
    refused = rates.admit(both, Units(4, 6), processes=1, now_us=0)
    assert refused == Refused("key:k", Dimension.TOKENS, 60_000)
    rates.settle(permit, Units(0, 0), refund=True, now_us=0)
    again = rates.admit(both, Units(4, 6), processes=1, now_us=0)
    assert isinstance(again, LocalPermit)
    assert again.rates[Dimension.REQUESTS].remaining == 2


@pytest.mark.parametrize("processes", [1, 2])
def test_call_that_fits_no_share_is_never_admitted_here(processes: int) -> None:
    rates = LocalRates(share=SHARE, buckets_max=9)
    limits = ScopeLimits(scope="org:o", requests_per_minute=1)
    with pytest.raises(NeverHere):
        rates.admit(Contract([limits]), Units(1, 1), processes=processes, now_us=0)
