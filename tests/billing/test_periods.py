"""Months in UTC, as invoices name them."""

from __future__ import annotations

import pytest

from billing.periods import BadPeriod, period, period_at


@pytest.mark.parametrize("name", ["2026-02", "2024-02", "2026-12", "1970-01", "9999-10"])
def test_month_ends_where_the_next_one_starts(name: str) -> None:
    month = period(name)
    assert period_at(month.start_us) == month == period_at(month.end_us - 1)
    assert period_at(month.end_us).start_us == month.end_us


@pytest.mark.parametrize(
    "name", ["2026-13", "2026-00", "0000-01", "9999-12", "26-01", "\u0662026-01", ""]
)
def test_what_is_no_month_is_refused(name: str) -> None:
    with pytest.raises(BadPeriod):
        period(name)
