"""The parties and the tax of an invoice as its documents say them: frozen with its number, or as
they are now while it is a draft."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from billing.documents.document import (
    DocumentAddress,
    DocumentParty,
    TaxCategory,
    TaxTreatment,
)
from billing.documents.invoice_document import BuyerTerms
from billing.invoices import store as invoices
from billing.parties import store as parties
from billing.parties.party import BillingProfile, PartyDetails, Seller
from billing.taxes.tax_rule import TaxRule

MICROSECONDS = 1_000_000


class NamedParties(NamedTuple):
    """Whom a document names, on which terms, and how lines are taxed that have no tax of their
    own."""

    seller: DocumentParty
    buyer: DocumentParty
    untaxed: TaxTreatment | None
    terms: BuyerTerms


def parties_of(conn: Connection, invoice: dict[str, Any]) -> NamedParties | None:
    """None where nobody sells, or the organization has no billing profile."""
    frozen = invoices.parties_of(conn, invoice["invoice_id"])
    if frozen is not None:
        due = datetime.fromtimestamp(frozen.due_us // MICROSECONDS, UTC).date()
        return _named(frozen.seller, frozen.buyer, frozen.rule, due)
    if invoice["status"] != "draft":
        return None
    billed = parties.billed_as(conn, invoice["org"], invoice["period_end_us"] - 1)
    return None if billed is None else _named(*billed, None)


def named_in(seller: Seller, buyer: BillingProfile) -> NamedParties:
    """The parties of a document that asks for nothing."""
    return _named(seller, buyer, None, None)


def _named(
    seller: Seller, buyer: BillingProfile, rule: TaxRule | None, due: date | None
) -> NamedParties:
    """An invoice of an earlier release froze its rule, and no taxes: it has no rate."""
    treatment = None
    if rule is not None and not rule.rate_ppm:
        category = TaxCategory(rule.category)
        treatment = TaxTreatment(category, 0, rule.reason_code, rule.note)
    terms = BuyerTerms(due, buyer.language, buyer.buyer_reference, buyer.purchase_order)
    return NamedParties(party_of(seller, seller.iban), party_of(buyer), treatment, terms)


def party_of(party: PartyDetails, iban: str = "") -> DocumentParty:
    """The party as documents name it."""
    address = party.address
    place = (address.lines, address.city, address.postal_code, address.country, address.region)
    return DocumentParty(
        party.legal_name,
        DocumentAddress(*place),
        vat_id=party.vat_id,
        tax_id=party.tax_id,
        email=party.email,
        electronic_address=party.electronic_address,
        iban=iban,
    )
