"""Nano-USD as people and JSON see it: decimal strings in USD, exact both ways."""

from __future__ import annotations

from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow

from billing.prices.rounding import divide_half_even

NANOUSD_PER_USD = 1_000_000_000
NANOUSD_PER_CENT = 10_000_000
NANOUSD_MAX = 2**63 - 1
"""What a column of SQL holds: 9.2 thousand million USD."""
_EXACT = Context(prec=40, traps=[Inexact, InvalidOperation, Overflow])


def usd(nanousd: int) -> str:
    """The exact amount in USD, with at least two decimals: `0.00`, `12.50`, `0.000041`.

    Never a float, never an exponent.
    """
    sign = "-" if nanousd < 0 else ""
    whole, fraction = divmod(abs(nanousd), NANOUSD_PER_USD)
    decimals = f"{fraction:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"


def nanousd(text: str) -> int:
    """The inverse of `usd`. Raises ValueError for a text that is no amount, is finer than a
    nano-USD, or is beyond NANOUSD_MAX."""
    try:
        scaled = _EXACT.multiply(Decimal(text), Decimal(NANOUSD_PER_USD))
    except ArithmeticError as wrong:
        raise ValueError(f"not an amount in USD: {text!r}") from wrong
    if not scaled.is_finite() or abs(scaled) > NANOUSD_MAX:
        raise ValueError(f"not an amount in USD: {text!r}")
    if scaled != int(scaled):
        raise ValueError(f"finer than a nano-dollar: {text!r}")
    return int(scaled)


def whole_cents(nanousd: int) -> int:
    """Whole cents, rounded half to even."""
    return divide_half_even(nanousd, NANOUSD_PER_CENT)
