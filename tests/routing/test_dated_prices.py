"""One cost holds at an instant, and it changes only when one begins."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from routing.dated_prices import DatedCost, cost_at, next_start_us

INSTANTS = st.integers(0, 100)
COSTS = st.lists(st.builds(DatedCost, INSTANTS, INSTANTS), unique_by=lambda c: c.starts_us)


@given(COSTS, INSTANTS)
def test_the_last_that_has_begun_holds_until_the_next_begins(
    costs: list[DatedCost], at_us: int
) -> None:
    holds, next_us = cost_at(costs, at_us), next_start_us(costs, at_us)
    assert all(
        c.starts_us > at_us or (holds is not None and c.starts_us <= holds.starts_us) for c in costs
    )
    if next_us is not None:
        assert cost_at(costs, next_us - 1) == holds
        later = cost_at(costs, next_us)
        assert later is not None and later.starts_us == next_us


@given(COSTS, INSTANTS, st.randoms())
def test_the_order_in_which_costs_are_written_says_nothing(
    costs: list[DatedCost], at_us: int, rng: random.Random
) -> None:
    mixed = costs.copy()
    rng.shuffle(mixed)
    assert cost_at(mixed, at_us) == cost_at(costs, at_us)
