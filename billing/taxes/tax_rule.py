"""Which tax holds: rules as dated data, and those that fit a seller and a buyer.

Pure. A rule says a seller, a place and a kind of buyer, and an instant from which it holds; what it
leaves empty fits everybody. The rule that says most holds alone, unless it is of a jurisdiction:
then one of each jurisdiction holds, and their taxes add up, as in the United States. Where no rule
fits, or one of a level is missing that other places of the region have, there is no tax of zero:
there is none to name, and a person must say it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from billing.parties.party import BillingProfile, Seller

CATEGORIES = ("S", "Z", "E", "AE", "G", "O")
"""Of UNTDID 5305: standard, zero, exempt, reverse charge, export, outside the scope of tax."""
REVERSE_CHARGE = "AE"
EXEMPT = "E"
RATED = ("S",)
WITHOUT_REASON = ("S", "Z")
NO_RULE = "no tax rule fits its seller and its buyer"


class BadTaxRule(ValueError):
    """A rule contradicts itself. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TaxRule(msgspec.Struct, frozen=True, kw_only=True):
    """`rate_ppm` is in millionths: 19 % is 190,000. It holds in [from_us, to_us). A postal code
    stands for all that begin with it. `level` says which of several jurisdictions it is: county,
    city."""

    rule_id: str
    category: str
    from_us: int
    to_us: int | None = None
    seller: str = ""
    buyer_country: str = ""
    buyer_region: str = ""
    buyer_city: str = ""
    buyer_postal_codes: tuple[str, ...] = ()
    buyer_kind: str = ""
    jurisdiction: str = ""
    level: str = ""
    needs_exemption: bool = False
    rate_ppm: int = 0
    reason_code: str = ""
    note: str = ""


def checked_rule(rule: TaxRule) -> TaxRule:
    """Raises BadTaxRule."""
    if rule.category not in CATEGORIES:
        raise BadTaxRule("category", f"it is one of {', '.join(CATEGORIES)}")
    asks_nothing = bool(rule.jurisdiction) and not rule.rate_ppm
    if (rule.category in RATED) != (rule.rate_ppm > 0) and not asks_nothing:
        raise BadTaxRule("rate", f"category {rule.category} has no such rate")
    if rule.category not in WITHOUT_REASON and not (rule.reason_code or rule.note):
        raise BadTaxRule("reason_code", f"category {rule.category} needs a reason code or a note")
    if rule.to_us is not None and rule.to_us <= rule.from_us:
        raise BadTaxRule("to", "it ends after it begins")
    if _place(rule) and not rule.buyer_country:
        raise BadTaxRule("buyer_country", "a region, a city and a postal code are of a country")
    if rule.jurisdiction and rule.category not in RATED:
        raise BadTaxRule("jurisdiction", "what adds up has a rate: its category is S")
    if rule.level and not rule.jurisdiction:
        raise BadTaxRule("level", "a level is that of a jurisdiction")
    if rule.needs_exemption and rule.category != EXEMPT:
        raise BadTaxRule("needs_exemption", f"a certificate exempts: its category is {EXEMPT}")
    return rule


def overlapping(rule: TaxRule, others: Iterable[TaxRule]) -> TaxRule | None:
    """A rule of the same jurisdiction that may fit a buyer at an instant at which this one does: of
    two such rules nobody could say which one holds."""
    return next((each for each in others if _overlap(rule, each)), None)


def rule_for(
    rules: Iterable[TaxRule], seller: Seller, buyer: BillingProfile, at_us: int
) -> TaxRule | None:
    """The rule that says most of this seller and buyer at an instant; of two that say as much the
    later one, then the one with the smaller id. One that asks for a certificate of exemption comes
    before all others, and fits only while the buyer's holds. A reverse charge fits only where both
    have a VAT id."""
    return next(iter(_fitting(rules, seller, buyer, at_us)), None)


def rules_for(
    rules: Collection[TaxRule], seller: Seller, buyer: BillingProfile, at_us: int
) -> tuple[TaxRule, ...]:
    """That rule; where it is of a jurisdiction, one of each jurisdiction that asks for anything,
    the widest first. None where there is a lack."""
    fitting = _fitting(rules, seller, buyer, at_us)
    if lack_of(rules, seller, buyer, at_us):
        return ()
    return _stacked(fitting) if fitting[0].jurisdiction else (fitting[0],)


def lack_of(rules: Collection[TaxRule], seller: Seller, buyer: BillingProfile, at_us: int) -> str:
    """Why nobody knows the tax: no rule fits, or one of several jurisdictions is missing. Empty
    where it is known.

    A level that has a rule anywhere in the buyer's region has one in each place of it: a place
    that asks for nothing has a rule with a rate of zero.
    """
    fitting = _fitting(rules, seller, buyer, at_us)
    if not fitting:
        return NO_RULE
    if not fitting[0].jurisdiction:
        return ""
    region = buyer.address.region
    of_region = (
        rule
        for rule in rules
        if rule.jurisdiction
        and rule.buyer_region == region
        and _fits_elsewhere(rule, seller, buyer, at_us)
    )
    held = {_level(rule) for rule in fitting if rule.jurisdiction}
    if missing := sorted({_level(rule) for rule in of_region} - held):
        named = " and ".join(missing)
        return (
            f"no tax rule of level {named} fits the buyer's place, and others of {region} have one"
        )
    return "" if _stacked(fitting) else "its tax rules have a rate of zero in sum"


def _fitting(
    rules: Iterable[TaxRule], seller: Seller, buyer: BillingProfile, at_us: int
) -> list[TaxRule]:
    """The one that holds first comes first. It names the certificate that it relies on."""
    fitting = (rule for rule in rules if _fits(rule, seller, buyer, at_us))
    return [
        replace(rule, note=f"{rule.note} ({buyer.exemption})" if rule.note else buyer.exemption)
        if rule.needs_exemption
        else rule
        for rule in sorted(fitting, key=_rank)
    ]


def _stacked(fitting: Iterable[TaxRule]) -> tuple[TaxRule, ...]:
    by_jurisdiction: dict[str, TaxRule] = {}
    for rule in fitting:
        if rule.jurisdiction and rule.rate_ppm:
            by_jurisdiction.setdefault(rule.jurisdiction, rule)
    widest_first = sorted(by_jurisdiction.values(), key=lambda each: (_said(each), each.rule_id))
    return tuple(widest_first)


def _fits(rule: TaxRule, seller: Seller, buyer: BillingProfile, at_us: int) -> bool:
    if rule.buyer_city and rule.buyer_city.casefold() != buyer.address.city.casefold():
        return False
    code = _code(buyer.address.postal_code)
    if rule.buyer_postal_codes and not code.startswith(_codes(rule)):
        return False
    return _fits_elsewhere(rule, seller, buyer, at_us)


def _fits_elsewhere(rule: TaxRule, seller: Seller, buyer: BillingProfile, at_us: int) -> bool:
    """Whether it would fit, were the buyer where it holds in the buyer's region."""
    said = (
        (rule.seller, seller.seller_id),
        (rule.buyer_country, buyer.address.country),
        (rule.buyer_region, buyer.address.region),
        (rule.buyer_kind, buyer.kind.value),
    )
    if any(wanted and wanted != actual for wanted, actual in said):
        return False
    if rule.category == REVERSE_CHARGE and not (seller.vat_id and buyer.vat_id):
        return False
    if rule.needs_exemption and not buyer.is_exempt(at_us):
        return False
    return rule.from_us <= at_us and (rule.to_us is None or at_us < rule.to_us)


def _level(rule: TaxRule) -> str:
    """What it is called, or how wide it is."""
    return rule.level or ("local" if rule.buyer_city or rule.buyer_postal_codes else "region")


def _rank(rule: TaxRule) -> tuple[bool, int, int, str]:
    return not rule.needs_exemption, -_said(rule), -rule.from_us, rule.rule_id


def _said(rule: TaxRule) -> int:
    """How much a rule says."""
    said = (rule.seller, rule.buyer_country, *_place(rule), rule.buyer_kind)
    return sum(map(bool, said))


def _place(rule: TaxRule) -> tuple[object, ...]:
    """What a rule says of the place within its country; empty where it says nothing."""
    place = (rule.buyer_region, rule.buyer_city, rule.buyer_postal_codes)
    return place if any(place) else ()


def _overlap(rule: TaxRule, other: TaxRule) -> bool:
    if rule.rule_id == other.rule_id or not rule.jurisdiction:
        return False
    same = (
        (rule.seller, other.seller),
        (rule.buyer_country, other.buyer_country),
        (rule.buyer_region, other.buyer_region),
        (rule.buyer_city.casefold(), other.buyer_city.casefold()),
        (rule.buyer_kind, other.buyer_kind),
    )
    if rule.jurisdiction != other.jurisdiction or any(a and b and a != b for a, b in same):
        return False
    ours, theirs = _codes(rule), _codes(other)
    pairs = [(one, other_one) for one in ours for other_one in theirs]
    if pairs and not any(a.startswith(b) or b.startswith(a) for a, b in pairs):
        return False
    ends_us = [each.to_us for each in (rule, other) if each.to_us is not None]
    return not ends_us or max(rule.from_us, other.from_us) < min(ends_us)


def _codes(rule: TaxRule) -> tuple[str, ...]:
    return tuple(map(_code, rule.buyer_postal_codes))


def _code(postal_code: str) -> str:
    return "".join(postal_code.split()).upper()
