"""The month that is running: what its invoice would say now, and what it may come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.db.engine import Store
from billing.forecast.forecast import Forecast, to_come
from billing.invoices import agreed
from billing.invoices.months import preview
from billing.invoices.result import InvoiceResult
from billing.periods import Period, period_at
from billing.queries import GroupBy, usage_summary
from billing.terms.adjustments import MonthCharges, adjustments, grown
from billing.terms.store import terms_of
from billing.terms.term import Term, in_month
from billing.usage.rollup import DAY_US

DAYS_BEFORE = 28
"""Whole weeks, so that each day of the week counts as often as another."""
HOUR_US = DAY_US // 24


@dataclass(frozen=True, slots=True)
class CurrentCharges:
    """`result` is None where nothing was used and nothing is agreed. The forecast is of the month
    without tax, after its terms, less what credit has paid so far."""

    org: str
    month: Period
    now_us: int
    result: InvoiceResult | None
    forecast: Forecast

    @property
    def net_nanousd(self) -> int:
        return self.result.net_nanousd if self.result else 0

    @property
    def tax_nanousd(self) -> int:
        return self.result.tax_nanousd if self.result else 0

    @property
    def total_nanousd(self) -> int:
        return self.result.total_nanousd if self.result else 0

    @property
    def lines(self) -> Sequence[Mapping[str, Any]]:
        return self.result.priced_lines if self.result else ()


def current_charges(store: Store, org: str, now_us: int) -> CurrentCharges:
    month = period_at(now_us)
    with store.read() as conn:
        charges = agreed.month_charges(conn, org, month.start_us)
        terms = in_month(terms_of(conn, org), month.name)
    more = to_come(_days(store, org, now_us), (month.end_us - now_us) / DAY_US)
    ends = sorted(_comes_to(charges, terms, each) for each in more)
    result = preview(store, org, month.name, now_us=now_us)
    return CurrentCharges(org, month, now_us, result, Forecast(*ends))


def _comes_to(charges: MonthCharges, terms: Sequence[Term], more_nanousd: int) -> int:
    """A month that has so much more of what it has already."""
    month = grown(charges, more_nanousd)
    of_terms = sum(each.amount_nanousd for each in adjustments(month, terms))
    return month.unpaid_nanousd + of_terms


def _days(store: Store, org: str, now_us: int) -> list[int]:
    """What was charged on each of the whole days before, from the first that had a call. Where
    there is none, what today would come to at its pace."""
    today_us = now_us - now_us % DAY_US
    from_us = today_us - DAYS_BEFORE * DAY_US
    sums = usage_summary(store, org, from_us, now_us, [GroupBy.DAY])
    by_day = {int(each.group[GroupBy.DAY]): each.amount_nanousd for each in sums}
    today = by_day.pop(today_us, 0)
    if not by_day:
        return [today * DAY_US // max(now_us - today_us, HOUR_US)] if today else []
    return [by_day.get(at_us, 0) for at_us in range(min(by_day), today_us, DAY_US)]
