"""What the terms of an organization add to a month: the price at its end.

Pure. The order is fixed: tiers, allowances, shares, amounts, and the minimum last. What a grant of
credit has paid is settled by the price book, so a term lowers the rest at most, and never below
zero. Of a month that others have billed in part already, an invoice has the difference. Guards
law 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from billing.invoices.invoicing import LineKind
from billing.prices.rating import UNITS_PER_PRICE
from billing.prices.rounding import divide_half_even
from billing.prices.tariff import OF_TOKENS
from billing.terms.term import (
    WHOLE_PPM,
    AllowanceTerm,
    AmountTerm,
    MinimumTerm,
    PercentTerm,
    PriceStep,
    SelectiveTerm,
    Term,
    TierMode,
    TierTerm,
)


class Part(NamedTuple):
    """What can be selected of a month's charges."""

    model: str
    service_tier: str
    component: str


class Used(NamedTuple):
    """Charges of a part, less what was taken back."""

    part: Part
    quantity: int
    amount_nanousd: int


class MonthCharges(NamedTuple):
    """All charges of a month, and what grants of credit have paid of them."""

    used: tuple[Used, ...]
    paid_nanousd: int = 0
    """By paid credit."""
    promotional_nanousd: int = 0

    @property
    def unpaid_nanousd(self) -> int:
        """By no credit."""
        charged = sum(each.amount_nanousd for each in self.used)
        return charged - self.paid_nanousd - self.promotional_nanousd


class Adjustment(NamedTuple):
    """What one term adds to a month; below zero it lowers the price."""

    kind: LineKind
    term: Term
    amount_nanousd: int


@dataclass(slots=True)
class _Rest:
    """What is left of a month while terms are applied."""

    quantities: dict[Part, int]
    amounts: dict[Part, int]
    unpaid_nanousd: int
    """By no credit."""
    made: list[Adjustment] = field(default_factory=list)

    def add(self, kind: LineKind, term: Term, amount_nanousd: int) -> None:
        amount = max(amount_nanousd, -max(self.unpaid_nanousd, 0))
        self.unpaid_nanousd += amount
        if amount:
            self.made.append(Adjustment(kind, term, amount))


def adjustments(month: MonthCharges, terms: Sequence[Term]) -> tuple[Adjustment, ...]:
    """What the terms that hold in a month add to it, in the order of their application."""
    rest = _rest(month)
    for term in terms:
        if isinstance(term, TierTerm):
            _apply_tiers(rest, term)
    for term in terms:
        if isinstance(term, AllowanceTerm):
            _apply_allowance(rest, term)
    for term in terms:
        if isinstance(term, PercentTerm):
            off = divide_half_even(max(rest.unpaid_nanousd, 0) * term.rate_ppm, WHOLE_PPM)
            rest.add(LineKind.DISCOUNT, term, -off)
    for term in terms:
        if isinstance(term, AmountTerm):
            rest.add(LineKind.DISCOUNT, term, -term.amount_nanousd)
    for term in terms:
        if isinstance(term, MinimumTerm):
            lacking = term.amount_nanousd - rest.unpaid_nanousd - month.paid_nanousd
            rest.add(LineKind.MINIMUM, term, max(lacking, 0))
    return tuple(rest.made)


def grown(month: MonthCharges, more_nanousd: int) -> MonthCharges:
    """The month with so much more of what it has, in the same parts."""
    charged = sum(each.amount_nanousd for each in month.used)
    if charged <= 0 or more_nanousd <= 0:
        return month
    whole = charged + more_nanousd
    used = tuple(
        Used(part, quantity * whole // charged, amount * whole // charged)
        for part, quantity, amount in month.used
    )
    return month._replace(used=used)


def price_of(units: int, steps: Sequence[PriceStep], mode: TierMode) -> int:
    """So many units of a month in nano-USD, rounded once."""
    if mode is TierMode.VOLUME:
        at = next(step for step in steps if step.up_to is None or units <= step.up_to)
        return divide_half_even(units * at.nanousd_per_mtok, UNITS_PER_PRICE)
    exact, below = 0, 0
    for step in steps:
        upto = units if step.up_to is None else min(units, step.up_to)
        exact += max(upto - below, 0) * step.nanousd_per_mtok
        below = max(below, upto)
    return divide_half_even(exact, UNITS_PER_PRICE)


def _rest(month: MonthCharges) -> _Rest:
    quantities: dict[Part, int] = {}
    amounts: dict[Part, int] = {}
    for used in month.used:
        quantities[used.part] = quantities.get(used.part, 0) + used.quantity
        amounts[used.part] = amounts.get(used.part, 0) + used.amount_nanousd
    return _Rest(quantities, amounts, month.unpaid_nanousd)


def _apply_tiers(rest: _Rest, term: TierTerm) -> None:
    parts, units = _selected(rest, term)
    if units <= 0:
        return
    charged = sum(rest.amounts[part] for part in parts)
    difference = price_of(units, term.steps, term.mode) - charged
    for part, share in _spread(difference, {part: rest.quantities[part] for part in parts}):
        rest.amounts[part] += share
    rest.add(LineKind.TIERS, term, difference)


def _apply_allowance(rest: _Rest, term: AllowanceTerm) -> None:
    """Free units cost the average of the selected ones."""
    parts, units = _selected(rest, term)
    cost = sum(rest.amounts[part] for part in parts)
    if units <= 0 or cost <= 0:
        return
    off = divide_half_even(cost * min(term.units, units), units)
    for part, share in _spread(-off, {part: rest.quantities[part] for part in parts}):
        rest.amounts[part] += share
    rest.add(LineKind.ALLOWANCE, term, -off)


def _selected(rest: _Rest, term: SelectiveTerm) -> tuple[list[Part], int]:
    parts = [
        part
        for part in sorted(rest.quantities)
        if term.model in ("", part.model)
        and (part.component == term.component if term.component else part.component in OF_TOKENS)
        and term.service_tier in ("", part.service_tier)
    ]
    return parts, sum(rest.quantities[part] for part in parts)


def _spread(total: int, weights: Mapping[Part, int]) -> Iterable[tuple[Part, int]]:
    """A total in whole parts, by weight."""
    whole, weight, given = sum(weights.values()), 0, 0
    for part, own in weights.items():
        weight += own
        upto = total * weight // whole
        yield part, upto - given
        given = upto
