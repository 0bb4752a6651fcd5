"""Sellers, profiles and rules are put whole, on both databases."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from billing.db.engine import Store
from billing.parties import store as parties
from billing.parties.party import BadParty
from tests.billing.taxes.test_tax_rule import BUYER, HOME, REVERSE, RULES, SELLER


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def test_what_was_put_last_is_there(store: Store) -> None:
    parties.put_seller(store, SELLER, 1)
    moved = replace(SELLER, legal_name="Sluice Ltd \u202e\u05d0")
    assert parties.put_seller(store, moved, 2) == parties.seller(store, "s") == moved
    assert parties.put_profile(store, BUYER, 3) == parties.profile(store, "o") == BUYER
    for rule in RULES:
        parties.put_rule(store, rule, 4)
    parties.put_rule(store, replace(HOME, rate_ppm=200_000), 5)
    assert [rule.rule_id for rule in parties.rules(store)] == ["at", "home", "reverse"]
    assert [rule.rule_id for rule in parties.rules(store, after="at", limit=1)] == ["home"]
    with store.read() as conn:
        billed = parties.billed_as(conn, "o", 9)
        assert billed == (moved, BUYER, REVERSE)
        assert parties.billed_as(conn, "nobody", 9) is None
    assert parties.delete_rule(store, "reverse") == REVERSE
    assert parties.delete_rule(store, "reverse") is None
    with store.read() as conn:
        billed = parties.billed_as(conn, "o", 9)
        assert billed is not None and billed.rule is None, "never silently zero"


def test_series_of_another_seller_and_an_unknown_seller_are_refused(store: Store) -> None:
    parties.put_seller(store, SELLER, 1)
    with pytest.raises(BadParty, match="has this series") as refused:
        parties.put_seller(store, replace(SELLER, seller_id="t"), 2)
    assert refused.value.field == "series"
    with pytest.raises(BadParty, match="no seller") as refused:
        parties.put_profile(store, replace(BUYER, seller="t"), 3)
    assert refused.value.field == "seller"
    assert parties.profile(store, "o") is None and len(parties.sellers(store)) == 1
