"""What organizations owe, by how long it is overdue.

Pure. An invoice that says no day is due when it is issued.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

DAY_US = 86_400_000_000
AGES = ((0, "current"), (30, "days_1_30"), (60, "days_31_60"), (90, "days_61_90"))
"""Days up to which an amount is of an age; beyond the last it is of `OLDEST`."""
OLDEST = "days_over_90"


@dataclass(frozen=True, slots=True)
class OpenInvoice:
    org: str
    due_cents: int
    due_us: int


@dataclass(slots=True)
class Receivable:
    """Cents of one organization. What it has on account is not taken off."""

    org: str
    by_age: dict[str, int] = field(default_factory=dict)
    on_account_cents: int = 0

    @property
    def due_cents(self) -> int:
        return sum(self.by_age.values())


def age_of(due_us: int, now_us: int) -> str:
    days = -(-(now_us - due_us) // DAY_US)
    return next((name for days_max, name in AGES if days <= days_max), OLDEST)


def by_age(
    invoices: Iterable[OpenInvoice], on_account: Iterable[tuple[str, int]], now_us: int
) -> list[Receivable]:
    """By organization: those that owe something or have something on account."""
    rows: dict[str, Receivable] = {}
    for invoice in invoices:
        row = rows.setdefault(invoice.org, _empty(invoice.org))
        row.by_age[age_of(invoice.due_us, now_us)] += invoice.due_cents
    for org, cents in on_account:
        if cents:
            rows.setdefault(org, _empty(org)).on_account_cents = cents
    owing = (row for row in rows.values() if row.due_cents or row.on_account_cents)
    return sorted(owing, key=lambda row: row.org)


def _empty(org: str) -> Receivable:
    return Receivable(org, dict.fromkeys([*(name for _, name in AGES), OLDEST], 0))
