"""Taxes of an invoice: each line by the tax rule of the month in which it was used.

Pure. Amounts of one treatment are taxed together, in whole cents and rounded once (BR-CO-17 of EN
16931), or once for each jurisdiction. Promotional credit lowers what is taxed. Paid credit is a
payment on account, so it does not, nor does the rounding to cents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from billing.cents import cents_by_group, shared_cents, taxes_of
from billing.invoices.invoicing import LineKind
from billing.parties.party import Seller
from billing.taxes.tax_rule import WITHOUT_REASON, TaxRule

Row = Mapping[str, Any]


class TaxShare(NamedTuple):
    """What one of several jurisdictions asks for."""

    jurisdiction: str
    rate_ppm: int


class Treatment(NamedTuple):
    """How an amount is taxed. `rate_ppm` is in millionths: 19 % is 190,000. Where jurisdictions
    share it, it is the sum of their rates."""

    category: str
    rate_ppm: int
    reason_code: str
    note: str
    shares: tuple[TaxShare, ...] = ()

    @property
    def rates_ppm(self) -> tuple[int, ...]:
        return tuple(each.rate_ppm for each in self.shares) or (self.rate_ppm,)


class TaxPart(NamedTuple):
    """A tax as it is owed: of one jurisdiction, or of a treatment that knows none."""

    treatment: Treatment
    jurisdiction: str
    rate_ppm: int
    account: str
    base_cents: int
    tax_cents: int


@dataclass(frozen=True, slots=True)
class TaxAmount:
    """The taxes of all amounts of one treatment: by jurisdiction or one, each with the account of
    those whom it is owed to."""

    treatment: Treatment
    accounts: tuple[str, ...]
    base_cents: int
    taxes_cents: tuple[int, ...]

    @property
    def tax_cents(self) -> int:
        return sum(self.taxes_cents)

    @property
    def parts(self) -> tuple[TaxPart, ...]:
        shares = self.treatment.shares or (TaxShare("", self.treatment.rate_ppm),)
        return tuple(
            TaxPart(self.treatment, *share, account, self.base_cents, cents)
            for share, account, cents in zip(shares, self.accounts, self.taxes_cents, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Taxation:
    """`amounts` in the order of treatments. `places` has for each taxed line, by `seq`, which of
    them is its own, from 1."""

    amounts: tuple[TaxAmount, ...]
    places: Mapping[int, int]

    @property
    def tax_cents(self) -> int:
        return sum(amount.tax_cents for amount in self.amounts)

    @property
    def parts(self) -> tuple[TaxPart, ...]:
        return tuple(part for amount in self.amounts for part in amount.parts)

    def taxed_cents(self, lines: Sequence[Row]) -> dict[int, int]:
        """Cents by `seq` of the lines that are taxed: lines of one treatment share the cents of
        its base. Of an invoice without taxes they are those of all lines."""
        taxed = [
            line
            for line in lines
            if line["kind"] != LineKind.ROUNDING and (not self.places or line["seq"] in self.places)
        ]
        treatments = [self.places.get(line["seq"], 0) for line in taxed]
        cents = cents_by_group([line["amount_nanousd"] for line in taxed], treatments)
        return {line["seq"]: part for line, part in zip(taxed, cents, strict=True)}

    def cents(self, lines: Sequence[Row], total_cents: int) -> dict[int, int]:
        """Cents by `seq` of all lines, which sum to the total without tax. Paid credit shares its
        own cents, and the last line, which is the rounding where there is one, has the cent that
        both roundings may be off."""
        cents = self.taxed_cents(lines)
        others = [line for line in lines if line["seq"] not in cents]
        paid = [line for line in others if line["kind"] != LineKind.ROUNDING]
        of_paid = shared_cents([line["amount_nanousd"] for line in paid])
        cents |= {line["seq"]: 0 for line in others}
        cents |= {line["seq"]: part for line, part in zip(paid, of_paid, strict=True)}
        if lines:
            cents[lines[-1]["seq"]] += total_cents - sum(cents.values())
        return cents


NO_TAX = Taxation((), {})


@dataclass(frozen=True, slots=True)
class TaxBasis:
    """By what an invoice is taxed: its seller, the rules for each month by its end, none where
    there is a lack, the grants of credit on it that were paid for, and what the lacks are."""

    seller: Seller
    rules: Mapping[int, tuple[TaxRule, ...]]
    paid: Collection[str]
    lacks: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return all(self.rules.values())

    def taxation(self, lines: Sequence[Row]) -> Taxation:
        """None where a rule is missing: such an invoice has no number yet."""
        if not self.is_whole:
            return NO_TAX
        rules = self.rules
        base = [line for line in lines if _is_taxed(line, self.paid)]
        of_lines = [_treatment(rules[line["service_end_us"]]) for line in base]
        cents = cents_by_group([line["amount_nanousd"] for line in base], of_lines)
        places = {treatment: n for n, treatment in enumerate(sorted(set(of_lines)), start=1)}
        bases = dict.fromkeys(places, 0)
        for treatment, part in zip(of_lines, cents, strict=True):
            bases[treatment] += part
        accounts = {
            _treatment(held): tuple(account_of(rule, self.seller) for rule in held)
            for held in rules.values()
        }
        return Taxation(
            tuple(
                TaxAmount(each, accounts[each], bases[each], taxes_of(bases[each], each.rates_ppm))
                for each in places
            ),
            {row["seq"]: places[each] for row, each in zip(base, of_lines, strict=True)},
        )


def account_of(rule: TaxRule, seller: Seller) -> str:
    """The account of what a seller owes by a rule: to a country, a region of one, or a jurisdiction
    there, which has one of its own. A rule that names none is of the seller's own country."""
    place = [part for part in (rule.buyer_country, rule.buyer_region) if part]
    named = ["tax", seller.seller_id, "-".join(place) or seller.address.country]
    if rule.jurisdiction:
        named.append(rule.jurisdiction.replace("-", "_").replace(" ", "-"))
    return ":".join(named)


def _is_taxed(line: Row, paid: Collection[str]) -> bool:
    return line["kind"] != LineKind.ROUNDING and line["grant_id"] not in paid


def _treatment(rules: tuple[TaxRule, ...]) -> Treatment:
    rule = rules[0]
    if rule.jurisdiction:
        shares = tuple(TaxShare(each.jurisdiction, each.rate_ppm) for each in rules)
        return Treatment(rule.category, sum(each.rate_ppm for each in shares), "", "", shares)
    if rule.category in WITHOUT_REASON:
        return Treatment(rule.category, rule.rate_ppm, "", "")
    return Treatment(rule.category, rule.rate_ppm, rule.reason_code, rule.note)
