"""Versions of the price book on a real SQLite, and what is published of them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic import ValidationError
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from billing.pricebook import Component, PriceRate, Prices, read_published
from billing.prices import (
    PRICES_KEY,
    PriceError,
    activate_version,
    amend,
    create_version,
    list_versions,
    load_book,
    publish_prices,
    rates_in_force,
    rates_of,
    seed,
)
from billing.settings import PriceSettings
from billing.store.engine import Store
from tests.billing.calls import ADMITTED_US

NOW_US = ADMITTED_US


def rates(price: int) -> list[PriceRate]:
    return [
        PriceRate(model="m", tier="default", component=component, nanousd_per_mtok=price)
        for component in (Component.INPUT, Component.OUTPUT)
    ]


def settings(price: str) -> list[PriceSettings]:
    return [
        PriceSettings(
            model="m", input_usd_per_mtok=Decimal(price), output_usd_per_mtok=Decimal("1")
        )
    ]


def test_a_draft_prices_nothing_until_it_is_active(store: Store) -> None:
    draft = create_version(store, rates(5), created_by="admin", now_us=NOW_US)
    assert load_book(store).revision == 1
    activate_version(store, draft.version_id, effective_from_us=None, now_us=NOW_US)
    found = load_book(store).lookup("m", "default", False, NOW_US)
    assert isinstance(found, Prices) and found.version_id == draft.version_id


def test_a_version_cannot_begin_in_the_past_or_twice(store: Store) -> None:
    draft = create_version(store, rates(5), created_by="admin", now_us=NOW_US)
    with pytest.raises(PriceError, match="past"):
        activate_version(store, draft.version_id, effective_from_us=NOW_US - 1, now_us=NOW_US)
    activate_version(store, draft.version_id, effective_from_us=NOW_US + 5, now_us=NOW_US)
    with pytest.raises(PriceError, match="active already"):
        activate_version(store, draft.version_id, effective_from_us=NOW_US + 9, now_us=NOW_US)


def test_an_active_version_is_frozen(store: Store) -> None:
    for statement in (
        "UPDATE price_rate SET nanousd_per_mtok = 1",
        "DELETE FROM price_rate",
        "UPDATE price_version SET effective_from_us = 7",
        "INSERT INTO price_rate VALUES ('pv_1', 'x', 'default', FALSE, 'input', 1)",
    ):
        with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
            conn.execute(text(statement))


@pytest.mark.parametrize(
    "wrong",
    [[], rates(5)[:1], rates(5) + rates(6), rates(-1)],
    ids=["empty", "no output price", "priced twice", "negative"],
)
def test_rates_that_leave_a_gap_are_refused(store: Store, wrong: list[PriceRate]) -> None:
    with pytest.raises(PriceError):
        create_version(store, wrong, created_by="admin", now_us=NOW_US)


def test_the_settings_seed_a_version_only_when_they_change(store: Store) -> None:
    assert seed(store, settings("0.25"), now_us=NOW_US) is not None
    assert seed(store, settings("0.25"), now_us=NOW_US + 1) is None
    assert seed(store, settings("0.30"), now_us=NOW_US + 2) is not None
    assert seed(store, settings("0.25"), now_us=NOW_US + 3) is not None
    assert seed(store, [], now_us=NOW_US + 4) is None
    assert len(list_versions(store)) == 4


def test_amended_prices_leave_every_other_price_as_it_was(store: Store) -> None:
    """One version more, and only where something differs."""
    before = {rate for rate in rates_in_force(store, NOW_US) if rate.model != "m"}
    later = NOW_US + 10
    assert amend(store, rates(5), created_by="admin", now_us=later, note="") is not None
    assert amend(store, rates(5), created_by="admin", now_us=later + 1, note="") is None
    assert set(rates_in_force(store, later + 2)) == before | set(rates(5))


def test_amended_prices_must_be_whole(store: Store) -> None:
    with pytest.raises(PriceError, match="output"):
        amend(store, rates(5)[:1], created_by="admin", now_us=NOW_US + 1, note="")


def test_prices_that_an_administrator_added_outlive_a_change_of_the_settings(store: Store) -> None:
    seed(store, settings("0.25"), now_us=NOW_US)
    theirs = [PriceRate("theirs", r.tier, r.component, 7) for r in rates(0)]
    amend(store, theirs, created_by="admin", now_us=NOW_US + 1, note="")
    seed(store, settings("0.30"), now_us=NOW_US + 2)
    assert set(theirs) <= set(rates_in_force(store, NOW_US + 3))


def test_prices_in_usd_become_exact_integers() -> None:
    price = PriceSettings(
        model="m",
        input_usd_per_mtok=Decimal("0.000000001"),
        output_usd_per_mtok=Decimal("1.25"),
        request_usd=Decimal("0.0001"),
    )
    assert {rate.component.value: rate.nanousd_per_mtok for rate in rates_of(price)} == {
        "input": 1,
        "output": 1_250_000_000,
        "request": 100_000 * 1_000_000,
    }
    with pytest.raises(ValidationError):
        PriceSettings(
            model="m", input_usd_per_mtok=Decimal("0.0000000001"), output_usd_per_mtok=Decimal(1)
        )


async def test_what_is_published_is_the_book_also_after_a_wipe(store: Store, redis: Redis) -> None:
    assert await publish_prices(redis, store, now_us=NOW_US) is True
    assert await publish_prices(redis, store, now_us=NOW_US + 1) is False
    await redis.flushall()
    assert await publish_prices(redis, store, now_us=NOW_US + 2) is True
    payload = await redis.get(PRICES_KEY)
    assert isinstance(payload, bytes) and read_published(payload) == load_book(store)
