"""Money on the wire: decimal strings, exact both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import NANOUSD_MAX, nanousd, usd, whole_cents


@given(st.integers(-NANOUSD_MAX, NANOUSD_MAX))
def test_every_amount_comes_back_exactly(amount: int) -> None:
    assert nanousd(usd(amount)) == amount


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0.00"), (41_000, "0.000041"), (-1, "-0.000000001"), (12_500_000_000, "12.50")],
)
def test_amounts_have_at_least_cents_and_no_exponent(amount: int, text: str) -> None:
    assert usd(amount) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "1,5", "NaN", "sNaN", "Infinity", "-inf"),
        *("1e-10", "0.0000000001", "1." + "0" * 40 + "1", "9" * 40 + ".0000000001"),
        *("1e999999999", "1e400", str(NANOUSD_MAX)),
    ],
)
def test_what_is_no_amount_or_too_fine_or_absurd_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        nanousd(text)


def test_cents_round_half_to_even() -> None:
    assert [whole_cents(n * 1_000_000) for n in (5, 15, 25, -5, -15)] == [0, 2, 2, 0, -2]
