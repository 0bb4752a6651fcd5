"""An invoice from its transfers: lines that add up to the nano-dollar, then whole cents.

Pure. A charge spreads over one line for each of its components. A reversal is no usage, so it makes
adjustment lines. The part that a grant of credit has paid is a line below zero. A charge that comes
late keeps the month in which it was used. One rounding brings the total to cents, and it is a line
too. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from billing.money import NANOUSD_PER_CENT, whole_cents
from billing.periods import Period
from billing.prices.book import Component


class LineKind(StrEnum):
    USAGE = "usage"
    ADJUSTMENT = "adjustment"
    CREDIT = "credit"
    ROUNDING = "rounding"


@dataclass(frozen=True, slots=True)
class Part:
    """One component of a transfer, below zero in a reversal. A credit is one part without a
    component."""

    component: Component | None
    quantity: int
    unit_price_nanousd_per_mtok: int
    amount_nanousd: int


@dataclass(frozen=True, slots=True)
class Item:
    """A charge, a reversal or a credit with its parts. The parts add up to its signed amount."""

    transfer_id: str
    kind: LineKind
    service: Period
    project: str
    model: str
    tier: str
    batch: bool
    price_version: str
    parts: tuple[Part, ...]
    grant_id: str = ""
    is_simulated: bool = False


@dataclass(frozen=True, slots=True)
class TransferLink:
    """The amount of a transfer that a line carries."""

    transfer_id: str
    amount_nanousd: int


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
    links: tuple[TransferLink, ...] = ()
    grant_id: str = ""
    is_simulated: bool = False


@dataclass(frozen=True, slots=True)
class Composition:
    """Lines whose amounts add up to `total_cents` exactly. The subtotal is before rounding."""

    lines: tuple[Line, ...]
    subtotal_nanousd: int
    rounding_nanousd: int
    total_cents: int


Key = tuple[str, Period, str, str, str, bool, str, str, int, str, bool]

_KINDS = (LineKind.USAGE, LineKind.ADJUSTMENT, LineKind.CREDIT)
_COMPONENTS = tuple(Component)


def compose(items: Iterable[Item], period: Period) -> Composition:
    """The invoice of one organization for one month."""
    groups: dict[Key, list[tuple[Part, TransferLink]]] = {}
    for item in items:
        for part in item.parts:
            if part.quantity or part.amount_nanousd:
                link = TransferLink(item.transfer_id, part.amount_nanousd)
                groups.setdefault(_key(item, part), []).append((part, link))
    lines = [_line(key, parts) for key, parts in sorted(groups.items(), key=_order)]
    subtotal = sum(line.amount_nanousd for line in lines)
    total_cents = whole_cents(subtotal)
    rounding = total_cents * NANOUSD_PER_CENT - subtotal
    if rounding:
        lines.append(_rounding(period, rounding))
    return Composition(tuple(lines), subtotal, rounding, total_cents)


def _key(item: Item, part: Part) -> Key:
    return (
        item.kind,
        item.service,
        item.project,
        item.model,
        item.tier,
        item.batch,
        part.component or "",
        item.price_version,
        part.unit_price_nanousd_per_mtok,
        item.grant_id,
        item.is_simulated,
    )


def _order(entry: tuple[Key, object]) -> tuple[object, ...]:
    kind, service, project, model, tier, batch, component, *rest = entry[0]
    return (
        _KINDS.index(LineKind(kind)),
        service,
        project,
        model,
        tier,
        batch,
        _COMPONENTS.index(Component(component)) if component else -1,
        *rest,
    )


def _line(key: Key, parts: Sequence[tuple[Part, TransferLink]]) -> Line:
    kind, service, project, model, tier, batch, component, version = key[:8]
    price, grant_id, is_simulated = key[8:]
    return Line(
        kind=LineKind(kind),
        service=service,
        project=project,
        model=model,
        tier=tier,
        batch=batch,
        component=component,
        price_version=version,
        quantity=sum(part.quantity for part, _ in parts),
        unit_price_nanousd_per_mtok=price,
        amount_nanousd=sum(part.amount_nanousd for part, _ in parts),
        links=tuple(link for _, link in parts if link.amount_nanousd),
        grant_id=grant_id,
        is_simulated=is_simulated,
    )


def _rounding(period: Period, amount_nanousd: int) -> Line:
    return Line(
        kind=LineKind.ROUNDING,
        service=period,
        project="",
        model="",
        tier="",
        batch=False,
        component="",
        price_version="",
        quantity=0,
        unit_price_nanousd_per_mtok=0,
        amount_nanousd=amount_nanousd,
    )
