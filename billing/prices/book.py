"""The price book: which retail price held at which instant, for everybody and for one organization.

A book is an ordered set of versions. A version is effective from an instant until the next one
begins, so two versions never overlap. A version is never edited. Its id is frozen on every call
that was admitted under it, and rating again with that id must give the same amount. An organization
may have an agreement, versioned in the same way: prices of its own, and discounts on those of
everybody. A frozen id names both then. A model without a price is `Unpriced`, never free. Capacity
class is our cost, not the tenant's price, and is unknown here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from billing.prices.tariff import (
    Component,
    Discount,
    PriceRate,
    Prices,
    RateKey,
    Tariff,
    agreed,
    tariff_of,
)

__all__ = [
    "Component",
    "Discount",
    "PriceBook",
    "PriceRate",
    "PriceVersion",
    "Prices",
    "RateKey",
    "Tariff",
    "Unpriced",
    "make_book",
    "publish",
    "read_published",
]

EVERYBODY = ""
"""The organization of versions that hold for all who have no agreement."""
JOINT = "+"
"""Between the two ids that a call under an agreement has frozen."""


class PriceVersion(msgspec.Struct, frozen=True):
    """A complete set of rates, effective over [effective_from_us, effective_to_us).

    The version of an organization has its own rates and discounts. Its rates replace everybody's of
    the same (model, tier, batch). Its discounts apply to all others.
    """

    version_id: str
    effective_from_us: int
    effective_to_us: int | None
    rates: tuple[PriceRate, ...]
    org: str = EVERYBODY
    discounts: tuple[Discount, ...] = ()


@dataclass(frozen=True, slots=True)
class Unpriced:
    """No price is known. The call must be refused, never served for nothing."""

    model: str
    tier: str
    batch: bool
    reason: str


class Published(msgspec.Struct, frozen=True):
    """The document under `sluice:prices`: the version in force, the future ones, the past ones."""

    revision: int
    version_id: str
    effective_from_us: int
    rates: tuple[PriceRate, ...]
    versions: tuple[PriceVersion, ...]
    v: int = 1


@dataclass(frozen=True)
class PriceBook:
    """Every active version, oldest first.

    The version for an instant is looked up. All prices of a version are computed once, when the
    first call asks for them. So no call walks the book.
    """

    versions: tuple[PriceVersion, ...]
    revision: int = 0
    _by_org: dict[str, list[PriceVersion]] = field(init=False, repr=False, compare=False)
    _by_id: dict[str, PriceVersion] = field(init=False, repr=False, compare=False)
    _tariffs: dict[str, Tariff] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_org: dict[str, list[PriceVersion]] = {}
        for version in self.versions:
            by_org.setdefault(version.org, []).append(version)
        object.__setattr__(self, "_by_org", by_org)
        object.__setattr__(self, "_by_id", {v.version_id: v for v in self.versions})
        object.__setattr__(self, "_tariffs", {})

    def at(self, at_us: int, org: str = EVERYBODY) -> PriceVersion | None:
        """The version in force at an instant, of everybody or of one organization's agreement."""
        versions = self._by_org.get(org)
        if not versions:
            return None
        last = versions[-1]
        if last.effective_from_us <= at_us:  # nearly always: a call is admitted now
            return last
        place = bisect_right(versions, at_us, key=lambda v: v.effective_from_us)
        return versions[place - 1] if place else None

    def tariff(self, at_us: int, org: str = EVERYBODY) -> Tariff | None:
        """All prices for an organization's calls that are admitted at `at_us`."""
        version = self.at(at_us)
        if version is None:
            return None
        frozen = version.version_id
        if org and (agreement := self.at(at_us, org)):
            frozen = f"{frozen}{JOINT}{agreement.version_id}"
        return self._tariff(frozen)

    def lookup(
        self, model: str, tier: str, batch: bool, at_us: int, org: str = EVERYBODY
    ) -> Prices | Unpriced:
        """The prices for the hold and the charge of a call that is admitted at `at_us`."""
        tariff = self.tariff(at_us, org)
        if tariff is None:
            return Unpriced(model, tier, batch, "no price version is in force")
        return self.of_version(tariff.version_id, model, tier, batch)

    def of_version(self, version_id: str, model: str, tier: str, batch: bool) -> Prices | Unpriced:
        """The prices of a frozen id. They are the same whenever they are asked for."""
        tariff = self._tariff(version_id)
        if tariff is None:
            return Unpriced(model, tier, batch, f"price version {version_id!r} is unknown")
        prices = tariff.prices.get((model, tier, batch))
        if prices is None:
            return Unpriced(model, tier, batch, f"not priced in version {version_id!r}")
        return prices

    def _tariff(self, frozen: str) -> Tariff | None:
        tariff = self._tariffs.get(frozen)
        if tariff is None and (tariff := self._reckoned(frozen)):
            self._tariffs[frozen] = tariff
        return tariff

    def _reckoned(self, frozen: str) -> Tariff | None:
        """Compute the prices of a frozen id. There are only as many ids as pairs of versions in
        force together, so all are kept."""
        general_id, _, agreement_id = frozen.partition(JOINT)
        general, agreement = self._by_id.get(general_id), self._by_id.get(agreement_id)
        if general is None or general.org or (agreement_id and not (agreement and agreement.org)):
            return None
        if agreement is None:
            return tariff_of(frozen, general.rates)
        everybodys = self._tariff(general_id)
        assert everybodys is not None, "its version is in the book"
        own = tariff_of(frozen, agreement.rates)
        return agreed(frozen, everybodys, own, agreement.discounts)


def make_book(versions: Iterable[PriceVersion], revision: int = 0) -> PriceBook:
    """Order versions by their start. Each ends where the next one of its organization begins."""
    ordered = sorted(versions, key=lambda v: (v.effective_from_us, v.org))
    ends: dict[str, int] = {}
    ended = []
    for version in reversed(ordered):
        end_us = ends.get(version.org)
        ended.append(msgspec.structs.replace(version, effective_to_us=end_us))
        ends[version.org] = version.effective_from_us
    return PriceBook(tuple(reversed(ended)), revision)


def publish(book: PriceBook, now_us: int) -> bytes:
    """The JSON that gateways read; everybody's version in force stands at the top."""
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
    """The inverse of `publish`. Raises msgspec.ValidationError on another shape."""
    published = msgspec.json.decode(payload, type=Published)
    return PriceBook(published.versions, published.revision)
