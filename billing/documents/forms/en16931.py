"""A document in the terms of EN 16931: business terms (BT) and groups (BG) by their numbers.

Pure. Says what each profile asks for and the document lacks (NotAnEInvoice) rather than writing an
invoice that the receiver refuses. Sources: EN 16931-1, XRechnung 3.0, Peppol BIS Billing 3.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from billing.documents.document import (
    Document,
    DocumentKind,
    DocumentLine,
    DocumentParty,
    DocumentTax,
    Heading,
    Measure,
    TaxCategory,
    TaxTreatment,
)
from billing.documents.forms.amounts import cents_text, percent, unit_price_usd

Terms = dict[str, Any]


class Profile(StrEnum):
    EN16931 = "en16931"
    XRECHNUNG = "xrechnung"
    PEPPOL = "peppol"


class NotAnEInvoice(ValueError):
    """Why no e-invoice of this profile can be made of the document."""


CEN = "urn:cen.eu:en16931:2017"
SPECIFICATIONS = {
    Profile.EN16931: CEN,
    Profile.XRECHNUNG: f"{CEN}#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0",
    Profile.PEPPOL: f"{CEN}#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0",
}
PROCESS = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0"
TYPE_CODES = {DocumentKind.INVOICE: "380", DocumentKind.CREDIT_NOTE: "381"}
UNIT_CODES = {Measure.MILLISECOND: "C26", Measure.SECOND: "SEC"}
ONE = "C62"
"""UN/ECE Recommendation 20: one, milliseconds, and seconds."""
CREDIT_TRANSFER, SEPA_TRANSFER, NOT_DEFINED = "30", "58", "1"
DISCOUNT_CODE = "95"
"""UNTDID 5189: discount."""
_UNWRITABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def terms_of(document: Document, profile: Profile) -> Terms:
    """Every term of the document. Raises NotAnEInvoice."""
    lacks = list(lacking(document, profile))
    if lacks:
        raise NotAnEInvoice("; ".join(lacks))
    heading, totals = document.heading, document.totals
    is_outside = any(tax.treatment.category is TaxCategory.OUTSIDE for tax in document.taxes)
    terms: Terms = {
        "BT-1": _text(heading.number),
        "BT-2": heading.issued,
        "BT-3": TYPE_CODES[heading.kind],
        "BT-5": heading.currency,
        "BT-9": heading.due,
        "BT-10": _text(heading.buyer_reference),
        "BT-13": _text(heading.purchase_order),
        "BT-20": _text(heading.terms),
        "BT-23": PROCESS,
        "BT-72": heading.period_end,
        "BT-73": heading.period_start,
        "BT-74": heading.period_end,
        "BG-1": _notes(document),
        "BG-3": _preceding(heading),
        "BG-4": _party(heading.seller, is_outside=is_outside, is_seller=True),
        "BG-7": _party(heading.buyer, is_outside=is_outside, is_seller=False),
        "BG-20": _discounts(document),
        "BG-23": [_tax(tax) for tax in merged(document.taxes)],
        "BG-25": [_line(line) for line in document.lines],
        "BT-106": cents_text(totals.lines_cents),
        "BT-107": cents_text(totals.reductions_cents) if document.reductions else None,
        "BT-109": cents_text(totals.net_cents),
        "BT-110": cents_text(totals.tax_cents),
        "BT-112": cents_text(totals.total_cents),
        "BT-113": cents_text(totals.paid_cents) if totals.paid_cents else None,
        "BT-115": cents_text(totals.due_cents),
        **_payment(heading),
    }
    if document.converted is not None:
        terms["BT-6"] = document.converted.conversion.currency
        terms["BT-111"] = cents_text(document.converted.tax_cents)
    return {name: value for name, value in terms.items() if value not in (None, "", [])}


def lacking(document: Document, profile: Profile) -> Iterator[str]:
    """What keeps the document from being an e-invoice of this profile, in words."""
    heading, seller, buyer = document.heading, document.heading.seller, document.heading.buyer
    categories = {tax.treatment.category for tax in document.taxes}
    if heading.kind not in TYPE_CODES:
        yield f"a {heading.kind.value} is no e-invoice"
    if heading.is_draft or heading.issued is None:
        yield "it is not issued: it has no number"
    if not document.lines:
        yield "it has no line"
    for who, party in (("seller", seller), ("buyer", buyer)):
        if not _text(party.name):
            yield f"the {who} has no legal name"
        if len(party.address.country) != 2:
            yield f"the {who} has no country"
    if not (seller.vat_id or seller.tax_id):
        yield "the seller has no VAT id and no tax id"
    if not seller.vat_id and categories - {TaxCategory.OUTSIDE}:
        yield "the seller has no VAT id"
    if TaxCategory.REVERSE_CHARGE in categories and not buyer.vat_id:
        yield "reverse charge needs the buyer's VAT id"
    if TaxCategory.OUTSIDE in categories and len(categories) > 1:
        yield "an amount outside of VAT stands beside amounts inside"
    if document.totals.due_cents > 0 and not (heading.due or heading.terms):
        yield "it has no due date and no payment terms"
    if profile is not Profile.EN16931:
        yield from _lacking_of_networks(heading, profile)


def _lacking_of_networks(heading: Heading, profile: Profile) -> Iterator[str]:
    seller, buyer = heading.seller, heading.buyer
    for who, party in (("seller", seller), ("buyer", buyer)):
        if ":" not in party.electronic_address:
            yield f"the {who} has no electronic address (SCHEME:ID)"
    if not heading.buyer_reference and (profile is Profile.XRECHNUNG or not heading.purchase_order):
        yield "it has no buyer reference"
    if profile is Profile.XRECHNUNG:
        for who, party in (("seller", seller), ("buyer", buyer)):
            if not (party.address.city and party.address.postal_code):
                yield f"the {who} has no city or no postal code"
        if not (seller.phone and seller.email):
            yield "the seller has no phone or no e-mail"


def merged(taxes: tuple[DocumentTax, ...]) -> list[DocumentTax]:
    """One tax for each category and rate, as EN 16931 wants: reasons are joined."""
    by_rate: dict[tuple[str, int], DocumentTax] = {}
    for tax in taxes:
        treatment = tax.treatment
        key = (treatment.category.value, treatment.rate_ppm)
        one = by_rate.get(key)
        if one is None:
            by_rate[key] = tax
            continue
        notes = dict.fromkeys(note for note in (one.treatment.note, treatment.note) if note)
        joined = TaxTreatment(
            treatment.category,
            treatment.rate_ppm,
            one.treatment.reason_code or treatment.reason_code,
            "; ".join(notes),
        )
        by_rate[key] = DocumentTax(
            joined, one.base_cents + tax.base_cents, one.tax_cents + tax.tax_cents
        )
    return list(by_rate.values())


def _text(text: str) -> str:
    """What XML can carry of the text."""
    return _UNWRITABLE.sub("", text).strip()


def _notes(document: Document) -> list[Terms]:
    """One note: Peppol knows no more than one. EN 16931 knows one rate of a category, so what
    jurisdictions share is said here, and its tax is stated at the sum of their rates."""
    heading = document.heading
    shares = [
        f"{share.jurisdiction} {percent(share.rate_ppm)} %: {cents_text(share.tax_cents)}"
        for tax in document.taxes
        for share in tax.shares
        if share.jurisdiction
    ]
    texts = [_text(note) for note in (heading.reason, *heading.notes, "; ".join(shares))]
    joined = "\n".join(text for text in texts if text)
    return [{"BT-22": joined}] if joined else []


def _preceding(heading: Heading) -> list[Terms]:
    before = heading.preceding
    return [{"BT-25": _text(before.number), "BT-26": before.issued}] if before else []


def _party(party: DocumentParty, *, is_outside: bool, is_seller: bool) -> Terms:
    """Outside of VAT no VAT id may stand (BR-O-02); then the tax id says who it is."""
    address = party.address
    vat_id = "" if is_outside else party.vat_id
    scheme, _, identity = party.electronic_address.partition(":")
    lines = [_text(line) for line in address.lines if _text(line)]
    if len(lines) > 3:
        lines = [*lines[:2], ", ".join(lines[2:])]
    parts: Terms = {
        "name": _text(party.name),
        "vat_identifier": _text(vat_id),
        "legal_identifier": "" if vat_id else _text(party.tax_id or party.vat_id),
        "tax_identifier": _text(party.tax_id) if vat_id and is_seller else "",
        "country_code": address.country,
        "country_subdivision": _text(address.region),
        "city": _text(address.city),
        "postcode": _text(address.postal_code),
        **{f"addr_l{number}": line for number, line in enumerate(lines, 1)},
        "einvoicing_addr": _text(identity),
        "einvoicing_addr_schemeid": scheme if identity else "",
        "contacts": _contact(party),
    }
    return {name: value for name, value in parts.items() if value}


def _contact(party: DocumentParty) -> list[Terms]:
    if not (party.email or party.phone):
        return []
    contact = {"name": _text(party.name), "phone": _text(party.phone), "email": _text(party.email)}
    return [{name: value for name, value in contact.items() if value}]


def _payment(heading: Heading) -> Terms:
    """How to pay: by transfer to the seller's account, with the number as the reference."""
    if not heading.seller.iban:
        return {"BT-81": NOT_DEFINED}
    means = SEPA_TRANSFER if heading.currency == "EUR" else CREDIT_TRANSFER
    return {
        "BT-81": means,
        "BT-83": _text(heading.number),
        "BT-84": heading.seller.iban,
        "BT-85": _text(heading.seller.name),
    }


def _rate(treatment: TaxTreatment) -> str | None:
    return None if treatment.category is TaxCategory.OUTSIDE else percent(treatment.rate_ppm)


def _discounts(document: Document) -> list[Terms]:
    return [
        {
            "amount": cents_text(each.amount_cents),
            "reason": _text(each.description) or each.kind,
            "reason_code": DISCOUNT_CODE,
            "vat_category_code": each.tax.category.value,
            "vat_rate": _rate(each.tax),
        }
        for each in document.reductions
    ]


def _tax(tax: DocumentTax) -> Terms:
    treatment = tax.treatment
    return {
        "BT-116": cents_text(tax.base_cents),
        "BT-117": cents_text(tax.tax_cents),
        "BT-118": treatment.category.value,
        "BT-119": _rate(treatment),
        "BT-120": _text(treatment.note) or None,
        "BT-121": treatment.reason_code or None,
    }


def _line(line: DocumentLine) -> Terms:
    priced = line.as_priced()
    terms: Terms = {
        "BT-126": str(line.seq),
        "BT-129": str(priced.quantity),
        "BT-130": UNIT_CODES.get(priced.unit, ONE),
        "BT-131": cents_text(line.amount_cents),
        "BT-134": line.service_start,
        "BT-135": line.service_end,
        "BT-146": unit_price_usd(priced),
        "BT-149": str(priced.base_quantity),
        "BT-151": line.tax.category.value,
        "BT-152": _rate(line.tax),
        "BT-153": _text(line.description) or line.kind,
        "BG-32": [
            {"BT-160": name, "BT-161": _text(value)}
            for name, value in (("project", line.project), ("price version", line.price_version))
            if _text(value)
        ],
    }
    return terms
