"""Use cases of the price book: draft a version, change it, approve it, activate it from an instant,
publish the book.

An approved version takes effect as it was approved: neither an approved nor an active version
changes. To change a price is to activate another version, from now on or later, never in the past.
A version with an organization is an agreement with it alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import msgspec
from redis.asyncio import Redis
from sqlalchemy import Connection

from billing.db.engine import Store
from billing.prices import store as rows
from billing.prices.book import (
    EVERYBODY,
    JOINT,
    Discount,
    PriceBook,
    PriceRate,
    PriceVersion,
    make_book,
    publish,
)
from billing.prices.terms import (
    DISCOUNT,
    Difference,
    PriceError,
    check_terms,
    differences,
    group_of,
    key_of,
    rates_of,
)
from billing.settings import PriceSettings

__all__ = ["DISCOUNT", "PRICES_KEY", "PriceError", "rates_of"]

PRICES_KEY = "sluice:prices"
SEEDED_BY = "settings"


class UnknownVersion(PriceError):
    """No version has this id."""


class WrongStatus(PriceError):
    """The request is not possible for a version with this status."""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version of the book; `org` is "" where it holds for everybody."""

    version_id: str
    status: str
    effective_from_us: int | None
    created_us: int
    created_by: str
    note: str
    rates: tuple[PriceRate, ...]
    org: str = EVERYBODY
    discounts: tuple[Discount, ...] = ()
    approved_us: int | None = None
    approved_by: str | None = None
    activated_by: str | None = None


def create_version(
    store: Store,
    rates: Sequence[PriceRate],
    *,
    created_by: str,
    now_us: int,
    note: str = "",
    version_id: str | None = None,
    org: str = EVERYBODY,
    discounts: Sequence[Discount] = (),
) -> VersionInfo:
    """Create a draft. Raises PriceError if the rates contradict themselves or leave a gap."""
    terms = _Terms(tuple(rates), tuple(discounts), org)
    with store.write() as conn:
        return _create(conn, terms, created_by, now_us, note, version_id)


def change_version(
    store: Store,
    version_id: str,
    *,
    rates: Sequence[PriceRate],
    discounts: Sequence[Discount] = (),
    note: str | None = None,
) -> VersionInfo:
    """Give a draft other terms. Raises PriceError for any other version."""
    with store.write() as conn:
        version = _in_status(conn, version_id, "draft")
        check_terms(rates, discounts, of_one_org=bool(version.org))
        rows.delete_terms(conn, version_id)
        rows.insert_terms(conn, version_id, rates, discounts)
        if note is not None:
            rows.change(conn, version_id, note=note)
        return version_of(conn, version_id)


def drop_version(store: Store, version_id: str) -> None:
    """Delete a draft. Raises PriceError for any other version."""
    with store.write() as conn:
        _in_status(conn, version_id, "draft")
        rows.delete_draft(conn, version_id)


def approve_version(store: Store, version_id: str, *, approved_by: str, now_us: int) -> VersionInfo:
    """Approve a draft. From now on its terms do not change."""
    with store.write() as conn:
        return _approve(conn, version_id, approved_by, now_us)


def activate_version(
    store: Store,
    version_id: str,
    *,
    effective_from_us: int | None,
    now_us: int,
    activated_by: str,
) -> VersionInfo:
    """Put an approved version into force at an instant that is not in the past. None is now."""
    with store.write() as conn:
        return _activate(conn, version_id, effective_from_us, now_us, activated_by)


def put_into_force(
    store: Store,
    rates: Sequence[PriceRate],
    *,
    by: str,
    now_us: int,
    effective_from_us: int | None = None,
    note: str = "",
    version_id: str | None = None,
    org: str = EVERYBODY,
    discounts: Sequence[Discount] = (),
) -> VersionInfo:
    """Draft, approve and activate a version in one step, all by the same person. Raises
    PriceError."""
    terms = _Terms(tuple(rates), tuple(discounts), org)
    with store.write() as conn:
        return _put_into_force(conn, terms, by, now_us, note, effective_from_us, version_id)


def list_versions(store: Store) -> list[VersionInfo]:
    with store.read() as conn:
        return _versions(conn)


def find_version(store: Store, version_id: str) -> VersionInfo:
    """The version of an id. Raises UnknownVersion."""
    with store.read() as conn:
        return version_of(conn, version_id)


def difference(store: Store, version_id: str, other_id: str) -> list[Difference]:
    """The prices that change from one version to another. Raises UnknownVersion."""
    one, other = find_version(store, version_id), find_version(store, other_id)
    return differences((one.rates, one.discounts), (other.rates, other.discounts))


def load_book(store: Store) -> PriceBook:
    """Every active version, as SQL has it."""
    with store.read() as conn:
        return book_of(conn)


def book_of(conn: Connection) -> PriceBook:
    active = [
        PriceVersion(v.version_id, v.effective_from_us, None, v.rates, v.org, v.discounts)
        for v in _versions(conn)
        if v.effective_from_us is not None
    ]
    return make_book(active, revision=len(active))


def rates_in_force(store: Store, now_us: int) -> tuple[PriceRate, ...]:
    """The rates that everybody is charged now. There are none where no version is active yet."""
    with store.read() as conn:
        return _in_force(_versions(conn), now_us)


def amend(
    store: Store, rates: Sequence[PriceRate], *, created_by: str, now_us: int, note: str
) -> VersionInfo | None:
    """Activate a version that has these `rates` for their (model, tier, batch), and today's prices
    for everything else. None where such a version is in force already. Raises PriceError."""
    with store.write() as conn:
        now = _in_force(_versions(conn), now_us)
        groups = {group_of(rate) for rate in rates}
        amended = [rate for rate in now if group_of(rate) not in groups] + list(rates)
        if sorted(amended, key=key_of) == sorted(now, key=key_of):
            return None
        return _put_into_force(conn, _Terms(tuple(amended)), created_by, now_us, note)


def seed(store: Store, settings: Sequence[PriceSettings], *, now_us: int) -> VersionInfo | None:
    """Activate the prices of the settings file when they differ from those it had last. Models that
    the file does not price keep their prices."""
    rates = sorted((r for s in settings for r in rates_of(s)), key=key_of)
    if not rates:
        return None
    models = {rate.model for rate in rates}
    with store.write() as conn:
        versions = _versions(conn)
        before = [v for v in versions if v.created_by == SEEDED_BY]
        if before and sorted((r for r in before[-1].rates if r.model in models), key=key_of) == (
            rates
        ):
            return None
        others = [rate for rate in _in_force(versions, now_us) if rate.model not in models]
        terms = _Terms((*rates, *others))
        return _put_into_force(conn, terms, SEEDED_BY, now_us, "prices of the settings file")


async def publish_prices(redis: Redis, store: Store, *, now_us: int) -> bool:
    """Bring `sluice:prices` in line with SQL. True if it was not."""
    payload = publish(await asyncio.to_thread(load_book, store), now_us)
    if await redis.get(PRICES_KEY) == payload:
        return False
    await redis.set(PRICES_KEY, payload)
    return True


def version_of(conn: Connection, version_id: str) -> VersionInfo:
    """The version of an id, within a transaction. Raises UnknownVersion."""
    for version in _versions(conn):
        if version.version_id == version_id:
            return version
    raise UnknownVersion(f"there is no price version {version_id!r}")


@dataclass(frozen=True, slots=True)
class _Terms:
    rates: tuple[PriceRate, ...]
    discounts: tuple[Discount, ...] = ()
    org: str = EVERYBODY


def _put_into_force(
    conn: Connection,
    terms: _Terms,
    by: str,
    now_us: int,
    note: str,
    effective_from_us: int | None = None,
    version_id: str | None = None,
) -> VersionInfo:
    draft = _create(conn, terms, by, now_us, note, version_id)
    _approve(conn, draft.version_id, by, now_us)
    return _activate(conn, draft.version_id, effective_from_us, now_us, by)


def _create(
    conn: Connection,
    terms: _Terms,
    created_by: str,
    now_us: int,
    note: str,
    version_id: str | None = None,
) -> VersionInfo:
    check_terms(terms.rates, terms.discounts, of_one_org=bool(terms.org))
    version_id = version_id or _version_id(terms, now_us)
    if JOINT in version_id:
        raise PriceError(f"a version's id has no {JOINT}: it joins two of them")
    if any(v.version_id == version_id for v in _versions(conn)):
        raise PriceError(f"version {version_id} exists already")
    values = {
        "version_id": version_id,
        "org": terms.org,
        "created_us": now_us,
        "created_by": created_by,
        "note": note,
    }
    rows.insert_draft(conn, values)
    rows.insert_terms(conn, version_id, terms.rates, terms.discounts)
    return version_of(conn, version_id)


def _approve(conn: Connection, version_id: str, approved_by: str, now_us: int) -> VersionInfo:
    version = _in_status(conn, version_id, "draft")
    fields = {"status": "approved", "approved_us": now_us, "approved_by": approved_by}
    rows.change(conn, version_id, **fields)
    return replace(version, status="approved", approved_us=now_us, approved_by=approved_by)


def _activate(
    conn: Connection,
    version_id: str,
    effective_from_us: int | None,
    now_us: int,
    activated_by: str,
) -> VersionInfo:
    start_us = now_us if effective_from_us is None else effective_from_us
    version = _in_status(conn, version_id, "approved")
    if start_us < now_us:
        raise PriceError("a version cannot take effect in the past")
    if any((v.org, v.effective_from_us) == (version.org, start_us) for v in _versions(conn)):
        raise PriceError("another version takes effect at that very instant")
    fields = {"status": "active", "effective_from_us": start_us, "activated_by": activated_by}
    rows.change(conn, version_id, **fields)
    return replace(version, status="active", effective_from_us=start_us, activated_by=activated_by)


def _in_status(conn: Connection, version_id: str, status: str) -> VersionInfo:
    version = version_of(conn, version_id)
    if version.status == status:
        return version
    if version.status == "active":
        raise WrongStatus(f"version {version_id} is active already")
    raise WrongStatus(f"version {version_id} is {version.status}, not {status}")


def _versions(conn: Connection) -> list[VersionInfo]:
    rates, discounts = rows.rates(conn), rows.discounts(conn)
    return [
        VersionInfo(
            **row,
            rates=tuple(rates.get(row["version_id"], ())),
            discounts=tuple(discounts.get(row["version_id"], ())),
        )
        for row in rows.versions(conn)
    ]


def _in_force(versions: Sequence[VersionInfo], now_us: int) -> tuple[PriceRate, ...]:
    """The rates in force for everybody."""
    by_start = {
        v.effective_from_us: v.rates
        for v in versions
        if v.effective_from_us is not None and v.effective_from_us <= now_us and not v.org
    }
    return by_start[max(by_start)] if by_start else ()


def _version_id(terms: _Terms, now_us: int) -> str:
    ordered = [
        now_us,
        terms.org,
        sorted(terms.rates, key=key_of),
        sorted(terms.discounts, key=repr),
    ]
    return f"pv_{sha256(msgspec.json.encode(ordered)).hexdigest()[:20]}"
