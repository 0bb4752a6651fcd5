"""Statements on exchange rates. Each is put whole, under its currency and its day."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, and_, or_, select

from billing.currencies.conversion import shown_currency
from billing.currencies.exchange_rate import ExchangeRate, Shown, checked_rate, days_that_count
from billing.currencies.tables import ExchangeRateRow
from billing.db.columns import table_of
from billing.db.engine import Store
from billing.db.insert import insert_or_replace
from billing.parties.party import BillingProfile, Seller

RATE = table_of(ExchangeRateRow)
SAID = ("nano_per_usd", "source")
CHANGED = (*SAID, "set_by", "set_us")


def put_rate(store: Store, rate: ExchangeRate) -> ExchangeRate:
    """The rate as it is from now on; one that says the same stays as it was. Raises BadRate."""
    row: dict[str, Any] = msgspec.to_builtins(checked_rate(rate))
    with store.write() as conn:
        of_day = RATE.c.currency == row["currency"], RATE.c.day == row["day"]
        before = conn.execute(select(RATE).where(*of_day)).mappings().first()
        if before is not None and all(before[name] == row[name] for name in SAID):
            return _rate(before)
        insert_or_replace(conn, RATE, [row], CHANGED)
    return rate


def rates(
    store: Store,
    *,
    currency: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[ExchangeRate]:
    """The newest day first, from the one behind a day and a currency."""
    statement = select(RATE).order_by(RATE.c.day.desc(), RATE.c.currency).limit(limit)
    if currency is not None:
        statement = statement.where(RATE.c.currency == currency)
    if after is not None:
        day, name = after
        same_day = and_(RATE.c.day == day, RATE.c.currency > name)
        statement = statement.where(or_(RATE.c.day < day, same_day))
    with store.read() as conn:
        return [_rate(row) for row in conn.execute(statement).mappings()]


def shown(
    conn: Connection, parties: tuple[Seller, BillingProfile] | None, now_us: int, days_max: int
) -> Shown | None:
    """What a document of now shows beside USD; None where it shows USD alone."""
    if parties is None:
        return None
    seller, buyer = parties
    currency = shown_currency(seller.tax_currency, buyer.currency)
    if currency is None:
        return None
    first, last = (day.isoformat() for day in days_that_count(now_us, days_max))
    newest = (
        select(RATE)
        .where(RATE.c.currency == currency, RATE.c.day >= first, RATE.c.day <= last)
        .order_by(RATE.c.day.desc())
        .limit(1)
    )
    row = conn.execute(newest).mappings().first()
    return Shown(currency, None if row is None else _rate(row).conversion, days_max)


def _rate(row: Any) -> ExchangeRate:
    return msgspec.convert(dict(row), ExchangeRate)
