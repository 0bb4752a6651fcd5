"""The budget of retries bounds what calls may ask together, whatever comes when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.health.retries import BURST, PER_S, SHARE, RetryBudget

EVENTS = st.lists(st.tuples(st.floats(0, 3), st.integers(0, 40), st.integers(0, 40)), max_size=40)


@given(EVENTS)
def test_retries_are_bounded_by_calls_and_time(events: list[tuple[float, int, int]]) -> None:
    budget, now_s, calls, granted = RetryBudget(0.0), 0.0, 0, 0
    for passed_s, called, wanted in events:
        now_s += passed_s
        for _ in range(called):
            budget.called()
        calls += called
        left = budget.left(now_s)
        taken = sum(budget.take(now_s) for _ in range(wanted))
        assert taken == min(left, wanted)
        granted += taken
        assert granted <= SHARE * calls + PER_S * now_s + BURST + 1e-6


def test_an_outage_of_a_minute_at_a_hundred_calls_a_second_stays_below_a_sixth_more() -> None:
    """The figure of the issue: at most 1.15 attempts a call."""
    budget, granted = RetryBudget(0.0), 0
    for number in range(6000):
        budget.called()
        granted += budget.take(number / 100)
    assert (6000 + granted) / 6000 <= 1.15


def test_a_clock_that_goes_back_grants_nothing() -> None:
    budget = RetryBudget(100.0, burst=1.0)
    assert budget.take(100.0)
    assert not budget.take(0.0)
    assert not budget.take(100.0)
