"""The tax rule that fits: dated, and never one of nought by accident."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.parties.party import (
    BadParty,
    BillingProfile,
    BuyerKind,
    PostalAddress,
    Seller,
    checked_profile,
    checked_seller,
)
from billing.taxes.tax_rule import (
    BadTaxRule,
    TaxRule,
    checked_rule,
    overlapping,
    rule_for,
    rules_for,
)

SELLER = Seller(
    seller_id="s",
    series="SLU",
    legal_name="Sluice",
    address=PostalAddress(country="DE"),
    vat_id="DE136695976",
)
BUYER = BillingProfile(
    org="o",
    seller="s",
    legal_name="Buyer",
    address=PostalAddress(country="AT", region="Wien"),
    vat_id="ATU13585627",
)
HOME = TaxRule(rule_id="home", category="S", rate_ppm=190_000, from_us=0, buyer_country="DE")
REVERSE = TaxRule(
    rule_id="reverse",
    category="AE",
    from_us=0,
    buyer_kind="business",
    reason_code="VATEX-EU-AE",
)
CONSUMERS = TaxRule(
    rule_id="at", category="S", rate_ppm=200_000, from_us=0, buyer_country="AT",
    buyer_kind="consumer",
)  # fmt: skip
RULES = (HOME, REVERSE, CONSUMERS)

texts = st.sampled_from(("", "s", "t"))
countries = st.sampled_from(("", "AT", "DE"))
kinds = st.sampled_from(("", "business", "consumer"))
rules = st.builds(
    TaxRule,
    rule_id=st.sampled_from("abcdef"),
    category=st.sampled_from(("S", "AE", "O")),
    from_us=st.integers(0, 9),
    to_us=st.none() | st.integers(1, 12),
    seller=texts,
    buyer_country=countries,
    buyer_region=st.sampled_from(("", "Wien")),
    buyer_kind=kinds,
)
of_jurisdictions = st.builds(
    TaxRule,
    rule_id=st.sampled_from("abcdef"),
    category=st.just("S"),
    jurisdiction=st.sampled_from(("", "state", "city")),
    from_us=st.integers(0, 9),
    to_us=st.none() | st.integers(1, 12),
    buyer_country=st.just("AT"),
    buyer_region=st.sampled_from(("", "Wien", "Tirol")),
    buyer_city=st.sampled_from(("", "WIEN", "Graz")),
    buyer_postal_codes=st.sampled_from(((), ("10",), ("101",), ("8", "9"))),
    buyer_kind=kinds,
)
addresses = st.builds(
    PostalAddress,
    country=st.just("AT"),
    region=st.sampled_from(("Wien", "Tirol")),
    city=st.sampled_from(("Wien", "Graz")),
    postal_code=st.sampled_from(("1010", "80 10", "1 0")),
)


@given(st.lists(of_jurisdictions, max_size=8), st.integers(0, 12), addresses)
def test_one_rule_of_each_jurisdiction_holds_or_one_alone(
    offered: list[TaxRule], at_us: int, address: PostalAddress
) -> None:
    """Rules are put one by one, as a store takes them: none that overlaps."""
    taken: dict[str, TaxRule] = {}
    for rule in offered:
        if overlapping(rule, taken.values()) is None:
            taken[rule.rule_id] = rule
    buyer = replace(BUYER, address=address)
    held = rules_for(taken.values(), SELLER, buyer, at_us)
    best = rule_for(taken.values(), SELLER, buyer, at_us)
    fitting = [
        rule for rule in taken.values() if rule_for([rule], SELLER, buyer, at_us) is not None
    ]
    assert bool(held) is bool(fitting) and (best is None or best in held)
    for rule in fitting:
        others = [each for each in fitting if each.jurisdiction == rule.jurisdiction != ""]
        assert len(others) <= 1, "no two of a jurisdiction fit one buyer at one time"
    if best is not None and best.jurisdiction:
        assert set(held) == {rule for rule in fitting if rule.jurisdiction}
        assert len({rule.jurisdiction for rule in held}) == len(held)
        assert list(held) == list(rules_for(reversed(taken.values()), SELLER, buyer, at_us))
    else:
        assert held == ((best,) if best else ())


@given(found=st.lists(rules, max_size=8), at_us=st.integers(0, 12), has_vat=st.booleans())
def test_rule_that_holds_contradicts_nobody_and_none_says_more(
    found: list[TaxRule], at_us: int, has_vat: bool
) -> None:
    buyer = BUYER if has_vat else replace(BUYER, vat_id="")
    rule = rule_for(found, SELLER, buyer, at_us)
    fitting = [
        each
        for each in found
        if each.seller in ("", "s")
        and each.buyer_country in ("", "AT")
        and each.buyer_region in ("", "Wien")
        and each.buyer_kind in ("", "business")
        and each.from_us <= at_us
        and (each.to_us is None or at_us < each.to_us)
        and (each.category != "AE" or has_vat)
    ]
    assert (rule is None) == (not fitting)
    if rule is not None:
        assert rule in fitting
        assert all(_said(rule) >= _said(each) for each in fitting)
        assert rule == rule_for(reversed(found), SELLER, buyer, at_us) or _said(rule) == _said(
            rule_for(reversed(found), SELLER, buyer, at_us) or rule
        )


def _said(rule: TaxRule) -> int:
    said = (rule.seller, rule.buyer_country, rule.buyer_region, rule.buyer_kind)
    return sum(map(bool, said))


def test_reverse_charge_needs_both_vat_ids() -> None:
    assert rule_for(RULES, SELLER, BUYER, 1) == REVERSE
    assert rule_for(RULES, SELLER, replace(BUYER, vat_id=""), 1) is None
    assert rule_for(RULES, replace(SELLER, vat_id=""), BUYER, 1) is None
    consumer = replace(BUYER, kind=BuyerKind.CONSUMER, vat_id="")
    assert rule_for(RULES, SELLER, consumer, 1) == CONSUMERS


@pytest.mark.parametrize(
    ("field", "rule"),
    [
        ("category", replace(HOME, category="X")),
        ("rate", replace(HOME, rate_ppm=0)),
        ("rate", replace(REVERSE, rate_ppm=1)),
        ("reason_code", replace(REVERSE, reason_code="")),
        ("to", replace(HOME, from_us=5, to_us=5)),
        ("buyer_country", replace(HOME, buyer_country="", buyer_region="Wien")),
        ("buyer_country", replace(HOME, buyer_country="", buyer_postal_codes=("1",))),
        ("jurisdiction", replace(REVERSE, jurisdiction="EU")),
    ],
)
def test_rule_that_contradicts_itself_is_refused(field: str, rule: TaxRule) -> None:
    with pytest.raises(BadTaxRule) as refused:
        checked_rule(rule)
    assert refused.value.field == field


def test_numbers_are_checked_by_the_rules_of_their_country() -> None:
    assert checked_profile(replace(BUYER, vat_id="atu 13585627")).vat_id == "ATU13585627"
    assert checked_profile(replace(BUYER, vat_id="")).vat_id == ""
    with_iban = checked_seller(replace(SELLER, iban="DE89 3704 0044 0532 0130 00"))
    assert with_iban.iban == "DE89370400440532013000"
    for field, wrong in (
        ("vat_id", replace(SELLER, vat_id="DE136695977")),
        ("iban", replace(SELLER, iban="DE89370400440532013001")),
    ):
        with pytest.raises(BadParty) as refused:
            checked_seller(wrong)
        assert refused.value.field == field
    swiss = replace(BUYER, address=PostalAddress(country="CH"), vat_id="CHE107787577IVA")
    assert checked_profile(swiss).vat_id == "CHE107787577IVA"
    with pytest.raises(BadParty):
        checked_profile(replace(swiss, vat_id="CHE107787578IVA"))
    american = replace(BUYER, address=PostalAddress(country="US"), vat_id="12-3456789")
    assert checked_profile(american).vat_id == "12-3456789", "no rules are known of it"
