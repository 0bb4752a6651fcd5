"""Rating and the price book by example; their laws are in tests/laws/test_ledger_laws.py."""

from __future__ import annotations

import pytest

from billing.prices.book import (
    Component,
    PriceRate,
    Prices,
    PriceVersion,
    Unpriced,
    make_book,
    publish,
    read_published,
)
from billing.prices.rating import Charge, amount_of, dearest, rate
from billing.types import Usage

PRICES = Prices("pv_1", "m", "default", False, 250_000, 62_500, 1_000_000, 2_000_000)


def version(version_id: str, from_us: int, **prices: int) -> PriceVersion:
    rates = tuple(
        PriceRate(model="m", tier="default", component=Component(name), nanousd_per_mtok=price)
        for name, price in prices.items()
    )
    return PriceVersion(version_id, from_us, None, rates)


def test_each_component_is_rounded_on_its_own() -> None:
    charge = rate(Usage(input=10, cached_input=8, output=3), PRICES)
    assert charge == Charge("pv_1", 2, 0, 3, 2)  # 2.5 and 0.5 go to the even neighbour
    assert charge.amount_nanousd == 7


@pytest.mark.parametrize(
    ("units", "price", "amount"),
    [(1, 500_000, 0), (3, 500_000, 2), (5, 500_000, 2), (1, 500_001, 1), (0, 10**12, 0)],
)
def test_a_tie_goes_to_the_even_neighbour(units: int, price: int, amount: int) -> None:
    assert amount_of(units, price) == amount


def test_a_call_that_used_nothing_costs_nothing() -> None:
    assert rate(Usage(), PRICES).amount_nanousd == 0


def test_of_classes_at_one_price_the_plain_one_counts_as_the_dearest() -> None:
    prices = dict.fromkeys(("input", "cached_input", "cache_write", "output", "reasoning"), 5)
    found = make_book([version("a", 0, **prices)]).lookup("m", "default", False, 1)
    assert isinstance(found, Prices)
    assert dearest(3, 4, found) == Usage(input=3, output=4)


def test_a_version_holds_until_the_next_begins() -> None:
    book = make_book([version("b", 200, input=2, output=2), version("a", 100, input=1, output=1)])
    assert isinstance(book.lookup("m", "default", False, 99), Unpriced)
    assert [
        getattr(book.lookup("m", "default", False, t), "version_id", None) for t in (100, 199, 200)
    ] == ["a", "a", "b"]
    assert book.versions[0].effective_to_us == 200


def test_cached_input_costs_as_input_unless_priced() -> None:
    book = make_book([version("a", 0, input=5, output=7)])
    found = book.lookup("m", "default", False, 1)
    assert isinstance(found, Prices) and (found.cached_input, found.request) == (5, 0)


@pytest.mark.parametrize("parts", [{"input": 5}, {"output": 5}, {"cached_input": 1, "request": 1}])
def test_without_input_and_output_prices_a_model_is_unpriced(parts: dict[str, int]) -> None:
    book = make_book([version("a", 0, **parts)])
    assert isinstance(book.lookup("m", "default", False, 1), Unpriced)


def test_another_tier_or_batch_has_its_own_price_or_none() -> None:
    book = make_book([version("a", 0, input=5, output=7)])
    assert isinstance(book.lookup("m", "priority", False, 1), Unpriced)
    assert isinstance(book.lookup("m", "default", True, 1), Unpriced)


def test_what_is_published_is_read_back() -> None:
    book = make_book([version("a", 1, input=5, output=7), version("b", 9, input=6, output=8)], 2)
    assert read_published(publish(book, now_us=3)) == book
