"""Amounts of USD in another currency, at one rate. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from iso4217 import Currency

from billing.money import NANOUSD_PER_CENT, NANOUSD_PER_USD
from billing.prices.rounding import divide_half_away

USD = "USD"
DECIMALS = 2
"""Of every amount: an e-invoice knows no other, and no payment."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """One rate for the whole document, fixed at issue: so many nano-units of `currency` for a USD.
    `source` says whose rate it is."""

    currency: str
    nano_per_usd: int
    day: date
    source: str

    def cents(self, usd_cents: int) -> int:
        """Cents of USD in cents of the other currency, a half away from zero."""
        return divide_half_away(usd_cents * self.nano_per_usd, NANOUSD_PER_USD)

    def usd_cents(self, cents: int) -> int:
        """Cents of the other currency in cents of USD, a half away from zero."""
        return divide_half_away(cents * NANOUSD_PER_USD, self.nano_per_usd)


@dataclass(frozen=True, slots=True)
class Converted:
    """What a document says in its other currency."""

    conversion: Conversion
    tax_cents: int
    total_cents: int
    due_cents: int
    """What is to be paid yet."""

    @property
    def tax_nano(self) -> int:
        return self.tax_cents * NANOUSD_PER_CENT

    @property
    def total_nano(self) -> int:
        return self.total_cents * NANOUSD_PER_CENT

    @property
    def due_nano(self) -> int:
        return self.due_cents * NANOUSD_PER_CENT


def is_currency(code: str) -> bool:
    """Whether ISO 4217 has the code, for a currency that has cents."""
    try:
        return bool(Currency(code).exponent == DECIMALS)
    except ValueError:
        return False


def shown_currency(tax_currency: str, buyer_currency: str) -> str | None:
    """The one currency that a document shows beside USD: that in which its seller owes tax, else
    that of its buyer. None where that is USD."""
    currency = tax_currency or buyer_currency
    return None if currency == USD else currency
