"""The tax rule that fits: dated, and never one of nought by accident."""

from __future__ import annotations

from collections.abc import Iterable

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
    lack_of,
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
    level=st.sampled_from(("", "county")),
    rate_ppm=st.sampled_from((0, 1)),
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
    assert bool(held) is not bool(lack_of(taken.values(), SELLER, buyer, at_us))
    assert fitting or not held
    for rule in fitting:
        others = [each for each in fitting if each.jurisdiction == rule.jurisdiction != ""]
        assert len(others) <= 1, "no two of a jurisdiction fit one buyer at one time"
    if best is not None and best.jurisdiction:
        stacked = {rule for rule in fitting if rule.jurisdiction and rule.rate_ppm}
        assert set(held) == (stacked if held else set())
        assert not held or not _is_short(taken.values(), buyer, at_us)
        assert len({rule.jurisdiction for rule in held}) == len(held)
        assert list(held) == list(rules_for([*reversed(taken.values())], SELLER, buyer, at_us))
    else:
        assert held == ((best,) if best else ())


def _is_short(rules: Iterable[TaxRule], buyer: BillingProfile, at_us: int) -> bool:
    """Whether a buyer of another place of the region is asked for a tax of a level of its own, and
    this one is not."""
    here = {
        _level(rule)
        for rule in rules
        if rule.jurisdiction and rule_for([rule], SELLER, buyer, at_us) is not None
    }
    for rule in rules:
        code, city = (*rule.buyer_postal_codes, "")[0], rule.buyer_city
        address = PostalAddress(
            country="AT", region=buyer.address.region, city=city, postal_code=code
        )
        there = replace(buyer, address=address)
        is_of_region = rule.jurisdiction and rule.buyer_region == address.region
        is_held = is_of_region and rule_for([rule], SELLER, there, at_us) is not None
        if is_held and _level(rule) not in here:
            return True
    return False


def _level(rule: TaxRule) -> str:
    is_local = rule.buyer_city or rule.buyer_postal_codes
    return rule.level or ("local" if is_local else "region")


STATE = TaxRule(
    rule_id="co", category="S", rate_ppm=29_000, from_us=0, seller="s", buyer_country="US",
    buyer_region="CO", jurisdiction="Colorado",
)  # fmt: skip
COUNTY = replace(
    STATE, rule_id="denver-county", jurisdiction="Denver County", rate_ppm=48_100,
    buyer_postal_codes=("802",),
)  # fmt: skip
ASPEN = replace(
    BUYER, org="org_1", vat_id="",
    address=PostalAddress(country="US", region="CO", city="Aspen", postal_code="81611"),
)  # fmt: skip
TEXAN = replace(ASPEN, address=PostalAddress(country="US", region="TX"))
EXEMPT = TaxRule(
    rule_id="exempt", category="E", from_us=0, buyer_country="US", needs_exemption=True,
    note="Exempt by certificate",
)  # fmt: skip


def test_a_jurisdiction_that_is_missing_is_a_lack_and_one_without_a_tax_says_so() -> None:
    def lack(*rules: TaxRule, buyer: BillingProfile = ASPEN) -> str:
        named = lack_of(rules, SELLER, buyer, 1)
        assert bool(rules_for(rules, SELLER, buyer, 1)) is not bool(named)
        return named

    none_here = replace(COUNTY, rule_id="pitkin", jurisdiction="Pitkin", buyer_postal_codes=("81",))
    assert lack(STATE) == "", "no place of Colorado is known to ask for more"
    assert "level local fits the buyer's place, and others of CO have one" in lack(STATE, COUNTY)
    assert lack(STATE, COUNTY, none_here) == ""
    assert lack(STATE, COUNTY, replace(none_here, rate_ppm=0)) == ""
    city = replace(COUNTY, rule_id="city", jurisdiction="Denver", level="city")
    assert "level city fits" in lack(STATE, COUNTY, none_here, city)
    nowhere_else = replace(STATE, rule_id="none", jurisdiction="none", level="city", rate_ppm=0)
    stacked = (STATE, COUNTY, none_here, city, nowhere_else)
    assert rules_for(stacked, SELLER, ASPEN, 1) == (STATE, none_here)
    texas = replace(STATE, rule_id="tx", buyer_region="TX", jurisdiction="Texas")
    assert lack(STATE, COUNTY, texas, buyer=TEXAN) == "", "that of another region says nothing"
    assert "zero in sum" in lack(replace(STATE, rate_ppm=0))
    ended = replace(COUNTY, to_us=1)
    assert lack(STATE, ended) == ""


@given(st.integers(-2, 2) | st.none())
def test_a_certificate_exempts_while_it_holds_and_then_the_ordinary_rules_do(
    ends_in_us: int | None,
) -> None:
    """Whatever else fits: a rule that asks for a certificate comes before what says more."""
    at_us = 10
    until_us = None if ends_in_us is None else at_us + ends_in_us
    buyer = replace(TEXAN, exemption="TX-1", exemption_until_us=until_us)
    ordinary = replace(STATE, buyer_region="TX", buyer_kind="business")
    is_exempt = until_us is None or at_us < until_us
    named = replace(EXEMPT, note="Exempt by certificate (TX-1)")
    assert rules_for([ordinary, EXEMPT], SELLER, buyer, at_us) == (
        (named,) if is_exempt else (ordinary,)
    )
    assert bool(rules_for([EXEMPT], SELLER, buyer, at_us)) is is_exempt, "else it is parked"
    assert rules_for([EXEMPT], SELLER, replace(buyer, exemption=""), at_us) == ()


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
        ("level", replace(HOME, level="county")),
        ("needs_exemption", replace(HOME, needs_exemption=True)),
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
