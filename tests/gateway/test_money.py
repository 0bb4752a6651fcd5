"""Money on the wire: decimal strings, exact both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.money import NANOUSD_MAX, nanousd, usd


@given(st.integers(-NANOUSD_MAX, NANOUSD_MAX))
def test_every_amount_comes_back_exactly(amount: int) -> None:
    assert nanousd(usd(amount)) == amount


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1, "0.000000001"), (1_500_000_000, "1.5"), (-1, "-0.000000001"), (10**12, "1000")],
)
def test_amounts_are_written_without_exponent_or_padding(amount: int, text: str) -> None:
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
