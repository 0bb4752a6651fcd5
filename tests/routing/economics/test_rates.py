"""The laws of rates that are counted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.cost import start_cost_nanousd
from routing.economics.rates import (
    NOTHING_COUNTED,
    PRIOR_CALLS_PER_START,
    PRIOR_LOSSES_PER_S,
    STEP,
    Occurrences,
    calls_per_start,
    in_steps,
    losses_per_s,
)
from tests.routing.fleets import pool, state

HOUR_S = 3600.0
counts = st.floats(0, 1e6)
times_s = st.floats(0, 1e9)
occurrences = st.builds(Occurrences, counts, times_s)
idle_times_s = st.floats(0.1, 1e6)


@given(idle_times_s)
def test_nothing_counted_gives_the_prior(idle_s: float) -> None:
    assert calls_per_start(NOTHING_COUNTED, idle_s) == pytest.approx(PRIOR_CALLS_PER_START)
    assert losses_per_s(NOTHING_COUNTED) == pytest.approx(PRIOR_LOSSES_PER_S)


@given(occurrences, counts, idle_times_s, st.booleans())
def test_more_arrivals_never_raise_the_price_of_a_start(
    arrivals: Occurrences, more: float, idle_s: float, is_in_steps: bool
) -> None:
    def price(arrived: Occurrences) -> float:
        calls = calls_per_start(arrived, idle_s)
        assert calls >= 1.0
        if is_in_steps:
            calls = in_steps(calls, PRIOR_CALLS_PER_START)
        return start_cost_nanousd(replace(state(pool()), calls_per_start=calls))

    busier = arrivals._replace(times=arrivals.times + more)
    assert price(busier) <= price(arrivals) <= start_cost_nanousd(state(pool(), calls_per_start=1))


@given(occurrences, counts, times_s)
def test_more_losses_never_lower_the_rate_and_more_time_without_any_never_raises_it(
    losses: Occurrences, more: float, longer_s: float
) -> None:
    rate = losses_per_s(losses)
    assert rate > 0
    assert losses_per_s(losses._replace(times=losses.times + more)) >= rate
    assert losses_per_s(losses._replace(watched_s=losses.watched_s + longer_s)) <= rate


@pytest.mark.parametrize("calls_per_hour", [0, 6, 60, 3600])
def test_an_hour_of_counting_outweighs_the_prior(calls_per_hour: int) -> None:
    """Calls that come in the ten minutes for which the pool stays warm."""
    calls = calls_per_start(Occurrences(calls_per_hour, HOUR_S), idle_s=600.0)
    assert calls == pytest.approx(max(1.0, calls_per_hour / 6), rel=0.15)


@given(st.floats(1e-9, 1e9), st.floats(1e-9, 1e9))
def test_steps_are_near_and_keep_the_order(one: float, other: float) -> None:
    prior = 8.0
    assert in_steps(prior, prior) == prior
    assert one / STEP < in_steps(one, prior) < one * STEP
    if one <= other:
        assert in_steps(one, prior) <= in_steps(other, prior)
