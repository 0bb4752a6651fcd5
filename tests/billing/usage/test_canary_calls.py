"""Calls of rules with a canary are found by the version that sent them on, the newest first."""

from __future__ import annotations

import pytest

from billing.db.engine import Store
from billing.queries import canary_calls
from billing.types import Route
from tests.billing.invoices.test_invoices import IN_OCTOBER_US, book, call
from tests.billing.plans import accesses

AT_US = IN_OCTOBER_US


@pytest.fixture
def store(either_store: Store) -> Store:
    def one(number: int, is_canary: bool | None, version: int = 7) -> None:
        route = Route(rule="night", policy_revision=version, is_canary=is_canary)
        book(either_store, call(either_store, f"req_{number}", AT_US + number, route=route))

    one(1, True)
    one(2, False)
    one(3, None)
    one(4, True, version=8)
    one(5, True)
    book(either_store, call(either_store, "req_6", AT_US + 6))
    return either_store


def sides_of(
    store: Store, from_us: int = 0, to_us: int = 99, limit: int = 9
) -> list[tuple[int, bool]]:
    calls = canary_calls(store, 7, AT_US + from_us, AT_US + to_us, limit)
    return [(each.ended_us - AT_US, each.is_canary) for each in calls]


def test_calls_of_both_sides_and_of_no_other_rule_or_version_are_found(store: Store) -> None:
    assert sides_of(store) == [(5, True), (2, False), (1, True)]
    assert sides_of(store, from_us=2, to_us=5) == [(2, False)]
    assert sides_of(store, limit=2) == [(5, True), (2, False)]


def test_they_are_found_by_an_index(store: Store) -> None:
    (look,) = accesses(store, lambda: canary_calls(store, 7, AT_US, AT_US + 99, 9))
    assert look.table == "usage_event"
    assert look.columns >= {"policy_revision", "ended_us"}
