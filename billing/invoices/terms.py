"""Changing the terms of an organization. Months that are billed keep the terms they had."""

from __future__ import annotations

from collections.abc import Sequence

from billing.db.engine import Store, take_turns
from billing.invoices import store as rows
from billing.invoices.store import RUN_LOCK
from billing.periods import period_at
from billing.terms import store as kept
from billing.terms.term import Term, checked, in_month


class MonthBilled(Exception):
    """A final invoice has charges of a month whose terms would change. It is voided first."""


def put_terms(store: Store, org: str, terms: Sequence[Term], now_us: int) -> tuple[Term, ...]:
    """The terms of an organization from now on, instead of those it had. Raises BadTerms,
    MonthBilled."""
    new = checked(terms)
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        former = kept.terms_of(conn, org)
        for month_us in rows.billed_months(conn, org):
            month = period_at(month_us).name
            if in_month(former, month) != in_month(new, month):
                raise MonthBilled(f"a final invoice has charges of {month}")
        kept.replace(conn, org, new, now_us)
    return new


def terms(store: Store, org: str) -> tuple[Term, ...]:
    with store.read() as conn:
        return kept.terms_of(conn, org)
