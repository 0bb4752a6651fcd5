"""The price book: which retail price held at which instant.

A book is an ordered set of versions, each effective from an instant until the next one
begins, so that two versions can never overlap. A version is never edited: its id is frozen
on every call that was admitted under it, and re-rating with that id must always give the
same amount. What has no price is `Unpriced`, never free. Capacity class is our cost, not
the tenant's price, and is unknown here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec


class Component(StrEnum):
    """What a unit is counted in: tokens of a class, or whole requests."""

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    OUTPUT = "output"
    REQUEST = "request"


class PriceRate(msgspec.Struct, frozen=True):
    """Nano-USD per million units of one component."""

    model: str
    tier: str
    component: Component
    nanousd_per_mtok: int
    batch: bool = False


class PriceVersion(msgspec.Struct, frozen=True):
    """A complete set of rates, effective over [effective_from_us, effective_to_us)."""

    version_id: str
    effective_from_us: int
    effective_to_us: int | None
    rates: tuple[PriceRate, ...]


@dataclass(frozen=True, slots=True)
class Prices:
    """The rates of one (model, tier, batch) in one version, nano-USD per million units."""

    version_id: str
    model: str
    tier: str
    batch: bool
    input: int
    cached_input: int
    output: int
    request: int = 0


@dataclass(frozen=True, slots=True)
class Unpriced:
    """No price is known: the call must be refused, never served for nothing."""

    model: str
    tier: str
    batch: bool
    reason: str


class Published(msgspec.Struct, frozen=True):
    """What stands under `sluice:prices`: the version in force, the future ones, the past."""

    revision: int
    version_id: str
    effective_from_us: int
    rates: tuple[PriceRate, ...]
    versions: tuple[PriceVersion, ...]
    v: int = 1


RateKey = tuple[str, str, bool]


@dataclass(frozen=True)
class PriceBook:
    """Every active version, oldest first."""

    versions: tuple[PriceVersion, ...]
    revision: int = 0
    _by_id: dict[str, dict[RateKey, Prices]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_id", {v.version_id: _index(v) for v in self.versions})

    def at(self, at_us: int) -> PriceVersion | None:
        """The version in force at an instant."""
        place = bisect_right(self.versions, at_us, key=lambda v: v.effective_from_us)
        return self.versions[place - 1] if place else None

    def lookup(self, model: str, tier: str, batch: bool, at_us: int) -> Prices | Unpriced:
        """The prices a call admitted at `at_us` is held and charged at."""
        version = self.at(at_us)
        if version is None:
            return Unpriced(model, tier, batch, "no price version is in force")
        return self.of_version(version.version_id, model, tier, batch)

    def of_version(self, version_id: str, model: str, tier: str, batch: bool) -> Prices | Unpriced:
        """The prices a version froze, whenever they are asked for."""
        rates = self._by_id.get(version_id)
        if rates is None:
            return Unpriced(model, tier, batch, f"price version {version_id!r} is unknown")
        prices = rates.get((model, tier, batch))
        if prices is None:
            return Unpriced(model, tier, batch, f"not priced in version {version_id!r}")
        return prices


def make_book(versions: Iterable[PriceVersion], revision: int = 0) -> PriceBook:
    """Order versions by their start and end each where the next one begins."""
    ordered = sorted(versions, key=lambda v: v.effective_from_us)
    ends = [*(version.effective_from_us for version in ordered[1:]), None]
    return PriceBook(
        tuple(
            msgspec.structs.replace(version, effective_to_us=end)
            for version, end in zip(ordered, ends, strict=False)
        ),
        revision,
    )


def publish(book: PriceBook, now_us: int) -> bytes:
    """The JSON that gateways read; the version in force stands at the top."""
    current = book.at(now_us)
    return msgspec.json.encode(
        Published(
            revision=book.revision,
            version_id=current.version_id if current else "",
            effective_from_us=current.effective_from_us if current else 0,
            rates=current.rates if current else (),
            versions=book.versions,
        )
    )


def read_published(payload: bytes) -> PriceBook:
    """The book behind `publish`; raises msgspec.ValidationError on another shape."""
    published = msgspec.json.decode(payload, type=Published)
    return PriceBook(published.versions, published.revision)


def _index(version: PriceVersion) -> dict[RateKey, Prices]:
    found: dict[RateKey, dict[Component, int]] = {}
    for rate in version.rates:
        key = (rate.model, rate.tier, rate.batch)
        found.setdefault(key, {})[rate.component] = rate.nanousd_per_mtok
    return {
        key: _prices(version.version_id, key, parts)
        for key, parts in found.items()
        if Component.INPUT in parts and Component.OUTPUT in parts
    }


def _prices(version_id: str, key: RateKey, parts: dict[Component, int]) -> Prices:
    """Input and output must be priced; cached input costs as input unless it has a price."""
    model, tier, batch = key
    return Prices(
        version_id=version_id,
        model=model,
        tier=tier,
        batch=batch,
        input=parts[Component.INPUT],
        cached_input=parts.get(Component.CACHED_INPUT, parts[Component.INPUT]),
        output=parts[Component.OUTPUT],
        request=parts.get(Component.REQUEST, 0),
    )
