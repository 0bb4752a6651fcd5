"""Amounts, rates and quantities as text: exact decimals, never a float, never an exponent."""

from __future__ import annotations

from decimal import Decimal

from billing.documents.document import DocumentLine
from billing.money import NANOUSD_PER_CENT, NANOUSD_PER_USD, usd

PPM_PER_PERCENT = 10_000


def cents_text(cents: int) -> str:
    """`12.50`, `-0.01`: always two decimals."""
    return usd(cents * NANOUSD_PER_CENT)


def percent(rate_ppm: int) -> str:
    """`19`, `8.875`."""
    return plain(Decimal(rate_ppm) / PPM_PER_PERCENT)


def unit_price_usd(line: DocumentLine) -> str:
    """For the base quantity of the line."""
    return usd(line.unit_price_nanousd)


def exact_usd(line: DocumentLine) -> Decimal:
    """Price times quantity, unrounded, in USD."""
    return (
        Decimal(line.quantity)
        / line.base_quantity
        * (Decimal(line.unit_price_nanousd) / NANOUSD_PER_USD)
    )


def plain(value: Decimal) -> str:
    """Without trailing zeros and without an exponent."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
