"""Nano-USD as people and JSON see it: decimal strings, exact."""

from __future__ import annotations

from billing.rating import divide_half_even

NANOUSD_PER_USD = 1_000_000_000
NANOUSD_PER_CENT = 10_000_000


def usd(nanousd: int) -> str:
    """The exact amount in USD, with at least two decimals: `0.00`, `12.50`, `0.000041`."""
    sign = "-" if nanousd < 0 else ""
    whole, rest = divmod(abs(nanousd), NANOUSD_PER_USD)
    decimals = f"{rest:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"


def whole_cents(nanousd: int) -> int:
    """Rounded half to even."""
    return divide_half_even(nanousd, NANOUSD_PER_CENT)
