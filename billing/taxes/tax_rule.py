"""Which tax holds: rules as dated data, and the one that fits a seller and a buyer best.

Pure. A rule says a seller, a country and a region of the buyer, a kind of buyer, and an instant
from which it holds; what it leaves empty fits everybody. Where no rule fits there is no tax of
zero: there is none to name, and a person must say it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from billing.parties.party import BillingProfile, Seller

CATEGORIES = ("S", "Z", "E", "AE", "G", "O")
"""Of UNTDID 5305: standard, zero, exempt, reverse charge, export, outside the scope of tax."""
REVERSE_CHARGE = "AE"
RATED = ("S",)
WITHOUT_REASON = ("S", "Z")


class BadTaxRule(ValueError):
    """A rule contradicts itself. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TaxRule(msgspec.Struct, frozen=True, kw_only=True):
    """`rate_ppm` is in millionths: 19 % is 190,000. It holds in [from_us, to_us)."""

    rule_id: str
    category: str
    from_us: int
    to_us: int | None = None
    seller: str = ""
    buyer_country: str = ""
    buyer_region: str = ""
    buyer_kind: str = ""
    rate_ppm: int = 0
    reason_code: str = ""
    note: str = ""


def checked_rule(rule: TaxRule) -> TaxRule:
    """Raises BadTaxRule."""
    if rule.category not in CATEGORIES:
        raise BadTaxRule("category", f"it is one of {', '.join(CATEGORIES)}")
    if (rule.category in RATED) != (rule.rate_ppm > 0):
        raise BadTaxRule("rate", f"category {rule.category} has no such rate")
    if rule.category not in WITHOUT_REASON and not (rule.reason_code or rule.note):
        raise BadTaxRule("reason_code", f"category {rule.category} needs a reason code or a note")
    if rule.to_us is not None and rule.to_us <= rule.from_us:
        raise BadTaxRule("to", "it ends after it begins")
    if rule.buyer_region and not rule.buyer_country:
        raise BadTaxRule("buyer_country", "a region is one of a country")
    return rule


def rule_for(
    rules: Iterable[TaxRule], seller: Seller, buyer: BillingProfile, at_us: int
) -> TaxRule | None:
    """The rule that says most of this seller and buyer at an instant; of two that say as much the
    later one, then the one with the smaller id. A reverse charge fits only where both have a VAT
    id."""
    fitting = [rule for rule in rules if _fits(rule, seller, buyer, at_us)]
    return min(fitting, key=_rank, default=None)


def _fits(rule: TaxRule, seller: Seller, buyer: BillingProfile, at_us: int) -> bool:
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
    return rule.from_us <= at_us and (rule.to_us is None or at_us < rule.to_us)


def _rank(rule: TaxRule) -> tuple[int, int, str]:
    said = (rule.seller, rule.buyer_country, rule.buyer_region, rule.buyer_kind)
    return -sum(map(bool, said)), -rule.from_us, rule.rule_id
