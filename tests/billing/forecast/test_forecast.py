"""A forecast: an interval that holds what is expected, and closes as the month ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.db.engine import Store
from billing.forecast.current import current_charges
from billing.forecast.forecast import to_come
from billing.invoices.terms import put_terms
from billing.usage.rollup import DAY_US
from tests.billing.invoices.test_invoices import OCTOBER, book, call
from tests.billing.invoices.test_terms import MINIMUM, ORG, TENTH, USD

days = st.lists(st.integers(0, 10**15), max_size=28)


@given(days, st.floats(0, 31))
def test_interval_holds_what_is_expected_and_ends_with_the_month(
    days: list[int], left: float
) -> None:
    low, expected, high = to_come(days, left)
    assert 0 <= low <= expected <= high
    assert to_come(days, 0) == (0, 0, 0)
    if days and len(set(days)) == 1 and len(days) > 1:
        assert low == expected == high == round(days[0] * left)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def test_running_month_goes_on_as_its_days_did_and_its_terms_apply(store: Store) -> None:
    assert current_charges(store, ORG, OCTOBER.start_us).forecast == (0, 0, 0)
    made = [
        call(store, f"req_{day}", OCTOBER.start_us + day * DAY_US, output=50_000_000)
        for day in range(10)
    ]
    at_us = OCTOBER.start_us + 10 * DAY_US
    book(store, *made, now_us=at_us)
    a_day = made[0].amount_nanousd
    current = current_charges(store, ORG, at_us)
    assert current.forecast == (31 * a_day, 31 * a_day, 31 * a_day)
    assert (current.net_nanousd, current.tax_nanousd) == (round(10 * a_day, -7), 0)
    put_terms(store, ORG, [TENTH], at_us)
    less = current_charges(store, ORG, at_us)
    assert less.forecast.expected == round(31 * a_day * 0.9)
    assert {line["kind"] for line in less.lines} >= {"usage", "discount"}
    put_terms(store, ORG, [MINIMUM], at_us)
    assert current_charges(store, ORG, OCTOBER.start_us).forecast.low >= 5 * USD
