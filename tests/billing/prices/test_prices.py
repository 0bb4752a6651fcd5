"""Versions of the price book on both databases, and what is published of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from billing.db.engine import Store
from billing.prices.book import Component, Discount, PriceRate, Prices, read_published
from billing.prices.terms import Difference
from billing.prices.versions import (
    PRICES_KEY,
    PriceError,
    UnknownVersion,
    activate_version,
    amend,
    approve_version,
    change_version,
    create_version,
    difference,
    drop_version,
    find_version,
    list_versions,
    load_book,
    publish_prices,
    put_into_force,
    rates_in_force,
    rates_of,
    seed,
)
from billing.settings import PriceSettings
from tests.billing.calls import ADMITTED_US

NOW_US = ADMITTED_US


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


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


def draft_of(store: Store, price: int, **more: Any) -> str:
    return create_version(store, rates(price), created_by="admin", now_us=NOW_US, **more).version_id


def approve(store: Store, version_id: str) -> None:
    approve_version(store, version_id, approved_by="other", now_us=NOW_US)


def activate(store: Store, version_id: str, from_us: int | None = None) -> None:
    activate_version(
        store, version_id, effective_from_us=from_us, now_us=NOW_US, activated_by="third"
    )


def test_a_draft_prices_nothing_until_it_is_approved_and_active(store: Store) -> None:
    draft = draft_of(store, 5)
    assert load_book(store).revision == 1
    approve(store, draft)
    assert load_book(store).revision == 1
    activate(store, draft)
    found = load_book(store).lookup("m", "default", False, NOW_US)
    assert isinstance(found, Prices) and found.version_id == draft
    version = find_version(store, draft)
    assert (version.created_by, version.approved_by, version.activated_by) == (
        "admin",
        "other",
        "third",
    )


def test_a_version_cannot_begin_in_the_past_or_twice(store: Store) -> None:
    draft = draft_of(store, 5)
    approve(store, draft)
    with pytest.raises(PriceError, match="past"):
        activate(store, draft, NOW_US - 1)
    activate(store, draft, NOW_US + 5)
    with pytest.raises(PriceError, match="active already"):
        activate(store, draft, NOW_US + 9)
    other = draft_of(store, 6)
    approve(store, other)
    with pytest.raises(PriceError, match="that very instant"):
        activate(store, other, NOW_US + 5)


def test_only_what_was_approved_takes_effect(store: Store) -> None:
    draft = draft_of(store, 5)
    with pytest.raises(PriceError, match="draft, not approved"):
        activate(store, draft)
    change_version(store, draft, rates=rates(7), note="dearer")
    approve(store, draft)
    for change in (
        lambda: change_version(store, draft, rates=rates(8)),
        lambda: drop_version(store, draft),
        lambda: approve(store, draft),
    ):
        with pytest.raises(PriceError, match="approved, not draft"):
            change()
    activate(store, draft)
    version = find_version(store, draft)
    assert ({rate.nanousd_per_mtok for rate in version.rates}, version.note) == ({7}, "dearer")


def test_a_draft_may_be_dropped_and_is_then_unknown(store: Store) -> None:
    draft = draft_of(store, 5, org="org_1", discounts=[Discount("", 5)])
    drop_version(store, draft)
    with pytest.raises(UnknownVersion):
        find_version(store, draft)
    with pytest.raises(UnknownVersion):
        approve(store, draft)


FROZEN = (
    "UPDATE price_rate SET nanousd_per_mtok = 1",
    "UPDATE price_rate SET version_id = '{draft}'",
    "DELETE FROM price_rate WHERE version_id = '{frozen}'",
    "INSERT INTO price_rate VALUES ('{frozen}', 'x', 'default', FALSE, 'input', 0, 1, NULL)",
    "UPDATE price_version SET note = 'x'",
    "UPDATE price_version SET effective_from_us = 7 WHERE version_id = '{frozen}'",
    "UPDATE price_version SET status = 'draft', approved_us = NULL, effective_from_us = NULL",
    "DELETE FROM price_discount WHERE version_id = '{frozen}'",
    "UPDATE price_discount SET basis_points = 0 WHERE version_id = '{frozen}'",
    "INSERT INTO price_discount VALUES ('{frozen}', 'x', 1)",
)


@pytest.mark.parametrize("status", ["approved", "active"])
@pytest.mark.parametrize("statement", FROZEN)
def test_an_approved_or_active_version_never_changes(
    store: Store, status: str, statement: str
) -> None:
    draft = draft_of(store, 1)
    frozen = draft_of(store, 5, org="org_1", discounts=[Discount("", 500)])
    approve(store, frozen)
    if status == "active":
        activate(store, frozen)
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text(statement.format(frozen=frozen, draft=draft)))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE price_version SET status = 'active', approved_us = 1, effective_from_us = 7 "
        "WHERE status = 'draft'",
        "UPDATE price_version SET version_id = 'pv_x' WHERE status = 'draft'",
        "INSERT INTO price_version VALUES "
        "('pv_x', '', 'active', 7, 1, 'admin', 1, 'admin', 'admin', '')",
        "DELETE FROM price_version WHERE version_id = 'pv_1'",
    ],
)
def test_no_statement_puts_a_version_into_force_unapproved(store: Store, statement: str) -> None:
    draft_of(store, 5)
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text(statement))


def test_postgresql_never_empties_the_book(postgres_store: Store) -> None:
    with pytest.raises(IntegrityError, match="may not change"), postgres_store.write() as conn:
        conn.execute(text("TRUNCATE price_rate"))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([PriceRate("m", "default", Component.REQUEST, 1, prompt_from=9)], "does not depend"),
        ([PriceRate("m", "default", Component.CACHED_INPUT, 9, prompt_from=9)], "long prompts"),
        ([PriceRate("m", "default", Component.INPUT, 4, prompt_from=9)], "costs less for longer"),
        ([PriceRate("m", "default", Component.INPUT, 5, prompt_from=-9)], "no number"),
        ([PriceRate("m", "default", Component.GPU_MS, 1)], "needs a most"),
        ([PriceRate("m", "default", Component.GPU_MS, 1, units_max=0)], "needs a most"),
        ([PriceRate("m", "default", Component.REQUEST, 1, units_max=5)], "has no most"),
        ([PriceRate("m", "default", Component.REASONING, 10**16)], "more than any call may"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_terms_that_no_hold_could_bound_are_refused(
    store: Store, wrong: list[PriceRate], why: str
) -> None:
    with pytest.raises(PriceError, match=why):
        create_version(store, rates(5) + wrong, created_by="admin", now_us=NOW_US)


def test_a_discount_is_part_of_an_agreement_alone(store: Store) -> None:
    with pytest.raises(PriceError, match="only an organization"):
        draft_of(store, 5, discounts=[Discount("m", 5)])
    with pytest.raises(PriceError, match="0 to 10000"):
        draft_of(store, 5, org="org_1", discounts=[Discount("m", 10_001)])
    with pytest.raises(PriceError, match="discounted twice"):
        draft_of(store, 5, org="org_1", discounts=[Discount("m", 1), Discount("m", 2)])


def test_an_agreement_holds_for_its_organization_from_its_instant_until_the_next(
    store: Store,
) -> None:
    put_into_force(store, rates(1000), by="admin", now_us=NOW_US, version_id="pv_2")
    for version_id, from_us, terms in (
        ("own", NOW_US + 10, {"discounts": [Discount("", 1000), Discount("other", 0)]}),
        ("over", NOW_US + 20, {}),
    ):
        put_into_force(
            store,
            [],
            by="admin",
            now_us=NOW_US,
            effective_from_us=from_us,
            version_id=version_id,
            org="org_1",
            **terms,  # type: ignore[arg-type]
        )
    book = load_book(store)

    def found(at_us: int, org: str) -> tuple[str, int]:
        prices = book.lookup("m", "default", False, at_us, org)
        assert isinstance(prices, Prices)
        return prices.version_id, prices.input

    assert found(NOW_US + 9, "org_1") == ("pv_2", 1000)
    assert found(NOW_US + 10, "org_1") == ("pv_2+own", 900)
    assert found(NOW_US + 10, "org_2") == found(NOW_US + 10, "") == ("pv_2", 1000)
    assert found(NOW_US + 20, "org_1") == ("pv_2+over", 1000)


def test_a_difference_tells_every_price_that_is_not_the_same(store: Store) -> None:
    gpu = PriceRate("m", "default", Component.GPU_MS, 3, units_max=10)
    one = draft_of(store, 5, org="org_1", discounts=[Discount("m", 5)])
    other = create_version(
        store, [*rates(5)[:1], rates(6)[1], gpu], created_by="a", now_us=NOW_US, org="org_1"
    )
    assert difference(store, one, one) == []
    assert difference(store, one, other.version_id) == [
        Difference("m", "default", False, "gpu_ms", 0, None, 3, None, 10),
        Difference("m", "default", False, "output", 0, 5, 6),
        Difference("m", "", False, "discount", 0, 5, None),
    ]


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
        minimum_usd=Decimal("0.000000001"),
        gpu_usd_per_s=Decimal("0.0004"),
        gpu_s_max=60,
    )
    assert {rate.component.value: rate.nanousd_per_mtok for rate in rates_of(price)} == {
        "input": 1,
        "output": 1_250_000_000,
        "request": 100_000 * 1_000_000,
        "minimum": 1_000_000,
        "gpu_ms": 400 * 1_000_000,
    }
    assert [rate.units_max for rate in rates_of(price) if rate.units_max] == [60_000]
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
