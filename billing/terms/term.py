"""Terms of an organization: what lowers or raises the price of its months once they have ended.

Pure. A term holds for whole months, from its first to its last one. What it says of models and
components it says of what was used of them in one month. Terms that contradict each other are
refused with the name of the field to change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import combinations, pairwise

import msgspec

from billing.money import usd
from billing.periods import BadPeriod, period
from billing.prices.tariff import COMPONENT_PATTERN, Component

WHOLE_PPM = 1_000_000
TERMS_MAX = 50
STEPS_MAX = 20
NO_END = "9999-12"
AMOUNT_MAX_NANOUSD = 10**17
"""100 million USD, of a month or of a million units."""


class BadTerms(ValueError):
    """Terms contradict themselves or each other. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TierMode(StrEnum):
    """`graduated`: each unit has the price of the step that it lies in. `volume`: all units have
    the price of the step that the last one lies in."""

    GRADUATED = "graduated"
    VOLUME = "volume"


class BasicTerm(msgspec.Struct, frozen=True, kw_only=True):
    """Months are `YYYY-MM`; no last month is no end. `name` is what lines of invoices say."""

    term_id: str
    first_month: str
    last_month: str = ""
    name: str = ""

    def holds_in(self, month: str) -> bool:
        return self.first_month <= month and (not self.last_month or month <= self.last_month)


class SelectiveTerm(BasicTerm, frozen=True, kw_only=True):
    """Of what was used of a model. An empty model or service tier is every one, an empty component
    every class of tokens."""

    model: str = ""
    component: str = ""
    service_tier: str = ""


class PriceStep(msgspec.Struct, frozen=True):
    """A price up to so many units of a month; None is the last step, without end."""

    up_to: int | None
    nanousd_per_mtok: int


class TierTerm(SelectiveTerm, frozen=True, kw_only=True, tag="tiers", tag_field="kind"):
    """What the selected units cost by their number in a month, instead of by the price book."""

    mode: TierMode = TierMode.GRADUATED
    steps: tuple[PriceStep, ...]


class AllowanceTerm(SelectiveTerm, frozen=True, kw_only=True, tag="allowance", tag_field="kind"):
    """So many of the selected units are free in each month."""

    units: int


class PercentTerm(BasicTerm, frozen=True, kw_only=True, tag="percent", tag_field="kind"):
    """A share off a month, in millionths: 10 % is 100,000."""

    rate_ppm: int


class AmountTerm(BasicTerm, frozen=True, kw_only=True, tag="amount", tag_field="kind"):
    """An amount off each month."""

    amount_nanousd: int


class MinimumTerm(BasicTerm, frozen=True, kw_only=True, tag="minimum", tag_field="kind"):
    """A month costs this at least."""

    amount_nanousd: int


Term = TierTerm | AllowanceTerm | PercentTerm | AmountTerm | MinimumTerm


def in_month(terms: Iterable[Term], month: str) -> tuple[Term, ...]:
    """Those that hold in a month, in their order."""
    return tuple(term for term in terms if term.holds_in(month))


def checked(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms of an organization. Raises BadTerms."""
    if len(terms) > TERMS_MAX:
        raise BadTerms("terms", f"there are {TERMS_MAX} at most")
    if len({term.term_id for term in terms}) != len(terms):
        raise BadTerms("id", "two terms have one id")
    for term in terms:
        _check_months(term)
        _check_amounts(term)
    for one, other in combinations(terms, 2):
        _check_together(one, other)
    return tuple(terms)


def _check_months(term: Term) -> None:
    for field in ("first_month", "last_month"):
        month = getattr(term, field)
        if not month and field == "last_month":
            return
        try:
            period(month)
        except BadPeriod as wrong:
            raise BadTerms(field, str(wrong)) from wrong
    if term.last_month < term.first_month:
        raise BadTerms("last_month", f"{term.term_id} ends before it begins")


def _check_amounts(term: Term) -> None:
    match term:
        case PercentTerm(rate_ppm=rate_ppm):
            if not 0 < rate_ppm <= WHOLE_PPM:
                raise BadTerms("percent", "it is above 0 and at most 100")
        case AmountTerm(amount_nanousd=amount) | MinimumTerm(amount_nanousd=amount):
            if not 0 < amount <= AMOUNT_MAX_NANOUSD:
                raise BadTerms("amount_usd", f"it is above 0 and at most {usd(AMOUNT_MAX_NANOUSD)}")
        case AllowanceTerm(units=units):
            _check_component(term)
            if units <= 0:
                raise BadTerms("units", "it is above zero")
        case TierTerm(steps=steps):
            _check_component(term)
            _check_steps(steps)


def _check_component(term: SelectiveTerm) -> None:
    if term.component and not re.fullmatch(COMPONENT_PATTERN, term.component):
        raise BadTerms("component", f"it is one of {', '.join(Component)}")


def _check_steps(steps: Sequence[PriceStep]) -> None:
    if not 0 < len(steps) <= STEPS_MAX:
        raise BadTerms("tiers", f"there are 1 to {STEPS_MAX}")
    if any(not 0 <= step.nanousd_per_mtok <= AMOUNT_MAX_NANOUSD for step in steps):
        raise BadTerms("tiers", f"a price is 0 to {usd(AMOUNT_MAX_NANOUSD)}")
    if steps[-1].up_to is not None or any(step.up_to is None for step in steps[:-1]):
        raise BadTerms("tiers", "the last one, and no other, has no end")
    ends = [0, *(step.up_to for step in steps if step.up_to is not None)]
    if any(later <= earlier for earlier, later in pairwise(ends)):
        raise BadTerms("tiers", "each ends behind the one before it")


def _check_together(one: Term, other: Term) -> None:
    """No unit has two prices by tiers, and no month has two minimums."""
    last_of_first = min(one.last_month or NO_END, other.last_month or NO_END)
    if max(one.first_month, other.first_month) > last_of_first:
        return
    both = f"{one.term_id} and {other.term_id}"
    if isinstance(one, MinimumTerm) and isinstance(other, MinimumTerm):
        raise BadTerms("kind", f"{both} are two minimums of one month")
    if not (isinstance(one, TierTerm) and isinstance(other, TierTerm)):
        return
    pairs = (
        (one.model, other.model),
        (one.component, other.component),
        (one.service_tier, other.service_tier),
    )
    if all(not a or not b or a == b for a, b in pairs):
        raise BadTerms("tiers", f"{both} give the same units two prices")
