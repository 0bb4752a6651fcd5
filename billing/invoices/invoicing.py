"""An invoice from sums of charges: lines that add up to the nano-dollar, then whole cents.

Pure. A charge spreads over one line for each of its components. A reversal is no usage, so it makes
adjustment lines. What the terms of the organization add to a month is a line each. The part that a
grant of credit has paid is a line below zero. A charge that comes late keeps the month in which it
was used. One rounding brings the total to cents, and it is a line
too. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from billing.money import NANOUSD_PER_CENT, whole_cents
from billing.periods import Period
from billing.prices.tariff import Component, kind_of


class LineKind(StrEnum):
    USAGE = "usage"
    ADJUSTMENT = "adjustment"
    TIERS = "tiers"
    ALLOWANCE = "allowance"
    DISCOUNT = "discount"
    MINIMUM = "minimum"
    CREDIT = "credit"
    ITEM = "item"
    ROUNDING = "rounding"


@dataclass(frozen=True, slots=True)
class Line:
    """The quantity is in units (tokens, requests), and the price is for a million of them."""

    kind: LineKind
    service: Period
    project: str
    model: str
    tier: str
    batch: bool
    component: str
    price_version: str
    quantity: int
    unit_price_nanousd_per_mtok: int
    amount_nanousd: int
    transfers: int = 0
    """How many transfers have a part in the amount."""
    grant_id: str = ""
    is_simulated: bool = False
    term_id: str = ""
    description: str = ""
    """Of a term or an item; what other lines are is said by their other fields."""


@dataclass(frozen=True, slots=True)
class Composition:
    """Lines whose amounts add up to `total_cents` exactly. The subtotal is before rounding."""

    lines: tuple[Line, ...]
    subtotal_nanousd: int
    rounding_nanousd: int
    total_cents: int


TERM_KINDS = (LineKind.TIERS, LineKind.ALLOWANCE, LineKind.DISCOUNT, LineKind.MINIMUM)
"""Lines of terms, in the order in which they are applied."""
_KINDS = (LineKind.USAGE, LineKind.ADJUSTMENT, *TERM_KINDS, LineKind.CREDIT, LineKind.ITEM)
_COMPONENTS = tuple(Component)


def compose(charges: Iterable[Line], period: Period) -> Composition:
    """The invoice of one organization for one month, of lines that have an amount or a quantity."""
    lines = sorted(charges, key=_order)
    subtotal = sum(line.amount_nanousd for line in lines)
    total_cents = whole_cents(subtotal)
    rounding = total_cents * NANOUSD_PER_CENT - subtotal
    if rounding:
        lines.append(line_of_amount(LineKind.ROUNDING, period, rounding))
    return Composition(tuple(lines), subtotal, rounding, total_cents)


def _order(line: Line) -> tuple[object, ...]:
    return (
        _KINDS.index(line.kind),
        line.service,
        line.project,
        line.model,
        line.tier,
        line.batch,
        _COMPONENTS.index(kind_of(line.component)) if line.component else -1,
        line.component,
        line.price_version,
        line.unit_price_nanousd_per_mtok,
        line.grant_id,
        line.is_simulated,
        line.term_id,
    )


def line_of_amount(
    kind: LineKind,
    service: Period,
    amount_nanousd: int,
    *,
    quantity: int = 0,
    transfers: int = 0,
    term_id: str = "",
    description: str = "",
) -> Line:
    """A line that is of no usage."""
    return Line(
        kind=kind,
        service=service,
        project="",
        model="",
        tier="",
        batch=False,
        component="",
        price_version="",
        quantity=quantity,
        unit_price_nanousd_per_mtok=0,
        amount_nanousd=amount_nanousd,
        transfers=transfers,
        term_id=term_id,
        description=description,
    )
