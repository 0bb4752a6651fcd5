"""Use cases of the price book: draft a version, activate it from an instant, publish the book.

An active version is frozen: to change a price is to activate another version, from now on or
later, never in the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import msgspec
from redis.asyncio import Redis
from sqlalchemy import Connection

from billing.pricebook import Component, PriceBook, PriceRate, PriceVersion, make_book, publish
from billing.settings import NANOUSD_PER_USD, UNITS_PER_PRICE, PriceSettings
from billing.store import prices as rows
from billing.store.engine import Store

PRICES_KEY = "sluice:prices"
SEEDED_BY = "settings"


class PriceError(Exception):
    """A version that cannot be made or activated, and why."""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """One version of the book, draft or active."""

    version_id: str
    status: str
    effective_from_us: int | None
    created_us: int
    created_by: str
    note: str
    rates: tuple[PriceRate, ...]


def create_version(
    store: Store,
    rates: Sequence[PriceRate],
    *,
    created_by: str,
    now_us: int,
    note: str = "",
    version_id: str | None = None,
) -> VersionInfo:
    """A draft; raises PriceError if the rates contradict themselves or leave a gap."""
    with store.write() as conn:
        return _create(conn, rates, created_by, now_us, note, version_id)


def activate_version(
    store: Store, version_id: str, *, effective_from_us: int | None, now_us: int
) -> VersionInfo:
    """Put a draft into force at an instant not in the past; None is now."""
    with store.write() as conn:
        return _activate(conn, version_id, effective_from_us, now_us)


def list_versions(store: Store) -> list[VersionInfo]:
    with store.read() as conn:
        return _versions(conn)


def load_book(store: Store) -> PriceBook:
    """Every active version, as SQL has it."""
    with store.read() as conn:
        return book_of(conn)


def book_of(conn: Connection) -> PriceBook:
    active = [
        PriceVersion(v.version_id, v.effective_from_us, None, v.rates)
        for v in _versions(conn)
        if v.effective_from_us is not None
    ]
    return make_book(active, revision=len(active))


def rates_in_force(store: Store, now_us: int) -> tuple[PriceRate, ...]:
    """What is charged now; nothing where no version is active yet."""
    with store.read() as conn:
        return _in_force(_versions(conn), now_us)


def amend(
    store: Store, rates: Sequence[PriceRate], *, created_by: str, now_us: int, note: str
) -> VersionInfo | None:
    """Activate a version that prices each (model, tier, batch) of `rates` by them and everything
    else as now; None where that is what is in force. Raises PriceError."""
    with store.write() as conn:
        now = _in_force(_versions(conn), now_us)
        groups = {_group(rate) for rate in rates}
        amended = [rate for rate in now if _group(rate) not in groups] + list(rates)
        if sorted(amended, key=_key) == sorted(now, key=_key):
            return None
        made = _create(conn, amended, created_by, now_us, note)
        return _activate(conn, made.version_id, None, now_us)


def seed(store: Store, settings: Sequence[PriceSettings], *, now_us: int) -> VersionInfo | None:
    """Activate the prices of the settings file when they differ from those it gave last; models
    that the file does not price keep the prices they have."""
    rates = sorted((r for s in settings for r in rates_of(s)), key=_key)
    if not rates:
        return None
    models = {rate.model for rate in rates}
    with store.write() as conn:
        versions = _versions(conn)
        before = [v for v in versions if v.created_by == SEEDED_BY]
        if before and sorted((r for r in before[-1].rates if r.model in models), key=_key) == rates:
            return None
        others = [rate for rate in _in_force(versions, now_us) if rate.model not in models]
        made = _create(conn, rates + others, SEEDED_BY, now_us, "prices of the settings file")
        return _activate(conn, made.version_id, None, now_us)


def rates_of(price: PriceSettings) -> list[PriceRate]:
    """USD per million as integers; exact, because a price has at most nine decimals."""
    usd = {
        Component.INPUT: price.input_usd_per_mtok,
        Component.CACHED_INPUT: price.cached_input_usd_per_mtok,
        Component.OUTPUT: price.output_usd_per_mtok,
        Component.REQUEST: price.request_usd * UNITS_PER_PRICE if price.request_usd else None,
    }
    return [
        PriceRate(
            model=price.model,
            tier=price.tier,
            batch=price.batch,
            component=component,
            nanousd_per_mtok=int(amount * NANOUSD_PER_USD),
        )
        for component, amount in usd.items()
        if amount is not None
    ]


async def publish_prices(redis: Redis, store: Store, *, now_us: int) -> bool:
    """Bring `sluice:prices` in line with SQL; True if it was not."""
    payload = publish(await asyncio.to_thread(load_book, store), now_us)
    if await redis.get(PRICES_KEY) == payload:
        return False
    await redis.set(PRICES_KEY, payload)
    return True


def _create(
    conn: Connection,
    rates: Sequence[PriceRate],
    created_by: str,
    now_us: int,
    note: str,
    version_id: str | None = None,
) -> VersionInfo:
    _check(rates)
    version_id = version_id or _version_id(rates, now_us)
    if any(v.version_id == version_id for v in _versions(conn)):
        raise PriceError(f"version {version_id} exists already")
    values = {
        "version_id": version_id,
        "created_us": now_us,
        "created_by": created_by,
        "note": note,
    }
    rows.insert_draft(conn, values, list(rates))
    return VersionInfo(version_id, "draft", None, now_us, created_by, note, tuple(rates))


def _activate(
    conn: Connection, version_id: str, effective_from_us: int | None, now_us: int
) -> VersionInfo:
    start_us = now_us if effective_from_us is None else effective_from_us
    known = {v.version_id: v for v in _versions(conn)}
    version = known.get(version_id)
    if version is None:
        raise PriceError(f"there is no price version {version_id!r}")
    if version.status == "active":
        raise PriceError(f"version {version_id} is active already")
    if start_us < now_us:
        raise PriceError("a version cannot take effect in the past")
    if any(v.effective_from_us == start_us for v in known.values()):
        raise PriceError("another version takes effect at that very instant")
    rows.activate(conn, version_id, start_us)
    return VersionInfo(
        version_id,
        "active",
        start_us,
        version.created_us,
        version.created_by,
        version.note,
        version.rates,
    )


def _versions(conn: Connection) -> list[VersionInfo]:
    rates = rows.rates(conn)
    return [
        VersionInfo(
            version_id=row["version_id"],
            status=row["status"],
            effective_from_us=row["effective_from_us"],
            created_us=row["created_us"],
            created_by=row["created_by"],
            note=row["note"],
            rates=tuple(rates.get(row["version_id"], ())),
        )
        for row in rows.versions(conn)
    ]


def _in_force(versions: Sequence[VersionInfo], now_us: int) -> tuple[PriceRate, ...]:
    begun = {
        v.effective_from_us: v.rates
        for v in versions
        if v.effective_from_us is not None and v.effective_from_us <= now_us
    }
    return begun[max(begun)] if begun else ()


def _check(rates: Sequence[PriceRate]) -> None:
    keys = [_key(rate) for rate in rates]
    if len(keys) != len(set(keys)):
        raise PriceError("a component is priced twice")
    if any(rate.nanousd_per_mtok < 0 for rate in rates):
        raise PriceError("a price is negative")
    parts: dict[tuple[str, str, bool], set[Component]] = {}
    for rate in rates:
        parts.setdefault((rate.model, rate.tier, rate.batch), set()).add(rate.component)
    for (model, tier, _), components in parts.items():
        if missing := {Component.INPUT, Component.OUTPUT} - components:
            raise PriceError(f"{model}/{tier} has no price for {', '.join(sorted(missing))}")
    if not rates:
        raise PriceError("a version without rates would leave every model unpriced")


def _key(rate: PriceRate) -> tuple[str, str, bool, str]:
    return *_group(rate), rate.component.value


def _group(rate: PriceRate) -> tuple[str, str, bool]:
    """What is priced as a whole."""
    return rate.model, rate.tier, rate.batch


def _version_id(rates: Sequence[PriceRate], now_us: int) -> str:
    ordered = msgspec.json.encode([now_us, *sorted(rates, key=_key)])
    return f"pv_{sha256(ordered).hexdigest()[:20]}"
