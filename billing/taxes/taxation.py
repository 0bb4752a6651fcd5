"""Taxes of an invoice: each line by the tax rule of the month in which it was used.

Pure. Amounts of one treatment are taxed together, in whole cents and rounded once (BR-CO-17 of EN
16931). Promotional credit lowers what is taxed. Paid credit is a payment on account, so it does
not, nor does the rounding to cents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from billing.cents import shared_cents, tax_of
from billing.invoices.invoicing import LineKind
from billing.parties.party import Seller
from billing.taxes.tax_rule import WITHOUT_REASON, TaxRule

Row = Mapping[str, Any]


class Treatment(NamedTuple):
    """How an amount is taxed. `rate_ppm` is in millionths: 19 % is 190,000."""

    category: str
    rate_ppm: int
    reason_code: str
    note: str


@dataclass(frozen=True, slots=True)
class TaxAmount:
    """The tax of all amounts of one treatment, and the account of those whom it is owed to."""

    treatment: Treatment
    account: str
    base_cents: int
    tax_cents: int


@dataclass(frozen=True, slots=True)
class Taxation:
    """`amounts` in the order of treatments. `places` has for each taxed line, by `seq`, which of
    them is its own, from 1."""

    amounts: tuple[TaxAmount, ...]
    places: Mapping[int, int]

    @property
    def tax_cents(self) -> int:
        return sum(amount.tax_cents for amount in self.amounts)


NO_TAX = Taxation((), {})


@dataclass(frozen=True, slots=True)
class TaxBasis:
    """By what an invoice is taxed: its seller, the rule for each month by its end, None where none
    fits, and the grants of credit on it that were paid for."""

    seller: Seller
    rules: Mapping[int, TaxRule | None]
    paid: Collection[str]

    @property
    def is_whole(self) -> bool:
        return None not in self.rules.values()

    def taxation(self, lines: Sequence[Row]) -> Taxation:
        """None where a rule is missing: such an invoice has no number yet."""
        rules = {end_us: rule for end_us, rule in self.rules.items() if rule is not None}
        if len(rules) < len(self.rules):
            return NO_TAX
        base = [line for line in lines if _is_taxed(line, self.paid)]
        cents = shared_cents([line["amount_nanousd"] for line in base])
        of_lines = [_treatment(rules[line["service_end_us"]]) for line in base]
        places = {treatment: n for n, treatment in enumerate(sorted(set(of_lines)), start=1)}
        bases = dict.fromkeys(places, 0)
        for treatment, part in zip(of_lines, cents, strict=True):
            bases[treatment] += part
        accounts = {_treatment(rules[at]): account_of(rules[at], self.seller) for at in rules}
        return Taxation(
            tuple(
                TaxAmount(each, accounts[each], bases[each], tax_of(bases[each], each.rate_ppm))
                for each in places
            ),
            {row["seq"]: places[each] for row, each in zip(base, of_lines, strict=True)},
        )


def account_of(rule: TaxRule, seller: Seller) -> str:
    """The account of what a seller owes by a rule: to a country or to a region of one. A rule that
    names none is of the seller's own country."""
    place = [part for part in (rule.buyer_country, rule.buyer_region) if part]
    return ":".join(["tax", seller.seller_id, "-".join(place) or seller.address.country])


def _is_taxed(line: Row, paid: Collection[str]) -> bool:
    return line["kind"] != LineKind.ROUNDING and line["grant_id"] not in paid


def _treatment(rule: TaxRule) -> Treatment:
    if rule.category in WITHOUT_REASON:
        return Treatment(rule.category, rule.rate_ppm, "", "")
    return Treatment(rule.category, rule.rate_ppm, rule.reason_code, rule.note)
