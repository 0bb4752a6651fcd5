"""Exchange rates as dated data, and the one that counts for a document of a day.

Pure. The newest rate counts whose day is not after that of the document. One that is too old is
none: no document may say an amount that nobody has said.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import msgspec

from billing.currencies.conversion import USD, Conversion, is_currency
from billing.money import usd

NANO_MIN, NANO_MAX = 10**5, 10**14
"""From 0.0001 to 100,000 units for a USD."""
MICROSECONDS = 1_000_000
NO_RATE = "no_exchange_rate"


class BadRate(ValueError):
    """A rate that cannot be. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ExchangeRate(msgspec.Struct, frozen=True, kw_only=True):
    """So many nano-units of a currency for a USD on a day, by whose word, and who set it when."""

    currency: str
    day: date
    nano_per_usd: int
    source: str
    set_by: str
    set_us: int

    @property
    def conversion(self) -> Conversion:
        return Conversion(self.currency, self.nano_per_usd, self.day, self.source)


class Shown(NamedTuple):
    """In which currency a document shows its totals beside USD, and at which rate. Without a rate
    it cannot be issued."""

    currency: str
    conversion: Conversion | None
    days_max: int

    @property
    def missing_because(self) -> str:
        within = f"nobody has said within {self.days_max} days"
        return f"{NO_RATE}: {within} how much {self.currency} a USD is"


def checked_rate(rate: ExchangeRate) -> ExchangeRate:
    """Raises BadRate."""
    if rate.currency == USD or not is_currency(rate.currency):
        raise BadRate("currency", "it is a code of ISO 4217, of a currency with cents, but not USD")
    if not NANO_MIN <= rate.nano_per_usd <= NANO_MAX:
        raise BadRate("units_per_usd", f"it is from {usd(NANO_MIN)} to {usd(NANO_MAX)}")
    return rate


def days_that_count(now_us: int, days_max: int) -> tuple[date, date]:
    """The first and the last day of a rate for a document of an instant."""
    day = datetime.fromtimestamp(now_us // MICROSECONDS, UTC).date()
    return day - timedelta(days=days_max), day
