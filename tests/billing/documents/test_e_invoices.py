"""E-invoices of every case pass the schemas, EN 16931 and Peppol; a wrong cent is refused."""

import re
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from billing.documents.document import Document, DocumentKind, DocumentParty
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.en16931 import SPECIFICATIONS, NotAnEInvoice, Profile
from tests.billing.documents.cases import CASES
from tests.billing.documents.made import (
    AMERICAN,
    GERMAN,
    OUTSIDE,
    REVERSE,
    SELLER,
    document,
    line,
)
from tests.billing.documents.rules import complaints, peppol_errors, rule_errors

OF_FACTUR_X_ALONE = "FX-SCH-A-000556"
"""The rules for CII are those of Factur-X: they know no specification but its own."""


def errors(xml: bytes, syntax: Syntax, profile: Profile) -> list[str]:
    found = complaints(xml, syntax)
    if syntax is Syntax.CII and profile is not Profile.EN16931:
        found = [each for each in found if not each.startswith(OF_FACTUR_X_ALONE)]
    return found


MANY = "thousand_lines"
OF_CASES = [
    (name, syntax, profile)
    for name in CASES
    for syntax in Syntax
    for profile in Profile
    if name != MANY or profile is Profile.PEPPOL
]


def test_cases_are_those_of_a_finance_department() -> None:
    assert len(CASES) >= 24
    assert len(CASES[MANY].lines) == 1_000


@pytest.mark.parametrize(("name", "syntax", "profile"), OF_CASES)
def test_e_invoice_passes_schema_and_rules(name: str, syntax: Syntax, profile: Profile) -> None:
    made = CASES[name]
    xml = xml_of(made, syntax, profile)
    assert errors(xml, syntax, profile) == []
    if syntax is Syntax.UBL and profile is Profile.PEPPOL:
        assert peppol_errors(xml) == []
    assert xml == xml_of(made, syntax, profile)
    assert SPECIFICATIONS[profile].encode() in xml


PAYABLE = {
    Syntax.CII: "ram:DuePayableAmount",
    Syntax.UBL: "cbc:PayableAmount",
}
TOTAL = {Syntax.CII: "ram:GrandTotalAmount", Syntax.UBL: "cbc:TaxInclusiveAmount"}
LINES = {Syntax.CII: "ram:LineTotalAmount", Syntax.UBL: "cbc:LineExtensionAmount"}


@pytest.mark.parametrize("element", [PAYABLE, TOTAL, LINES], ids=["payable", "total", "lines"])
@pytest.mark.parametrize("syntax", Syntax)
@pytest.mark.parametrize("name", ["domestic", "discount", "prepaid", "credit_note"])
def test_e_invoice_with_a_total_changed_by_a_cent_is_refused(
    name: str, syntax: Syntax, element: dict[Syntax, str]
) -> None:
    xml = xml_of(CASES[name], syntax).decode()
    pattern = re.compile(rf"(<{element[syntax]}[^>]*>)(-?[0-9]+)\.([0-9][0-9])<")
    wrong = pattern.sub(_a_cent_more, xml)
    assert wrong != xml
    assert rule_errors(wrong.encode(), syntax) != []


def _a_cent_more(match: re.Match[str]) -> str:
    cents = int(match[2] + match[3]) + 1
    return f"{match[1]}{cents // 100}.{cents % 100:02d}<"


def test_text_of_a_tenant_stays_text() -> None:
    xml = xml_of(CASES["hostile_text"], Syntax.UBL).decode()
    assert "&lt;/cbc:Name&gt;&lt;x&gt; =1+1" in xml
    assert "\x00" not in xml and "\x1b" not in xml
    assert xml.count("<cac:InvoiceLine>") == 1


@pytest.mark.parametrize(
    ("made", "profile", "why"),
    [
        (document(number=""), Profile.EN16931, "no number"),
        (document(kind=DocumentKind.RECEIPT), Profile.EN16931, "receipt is no e-invoice"),
        (document([]), Profile.EN16931, "no line"),
        (document([line(tax=REVERSE)], buyer=AMERICAN), Profile.EN16931, "buyer's VAT id"),
        (document([line(1), line(2, tax=OUTSIDE)]), Profile.EN16931, "outside of VAT"),
        (document(due=None, terms=""), Profile.EN16931, "no due date"),
        (document(buyer_reference=""), Profile.PEPPOL, "no buyer reference"),
        (document(buyer_reference=""), Profile.XRECHNUNG, "no buyer reference"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_document_that_lacks_what_a_profile_asks_for_is_refused_in_words(
    made: Document, profile: Profile, why: str
) -> None:
    with pytest.raises(NotAnEInvoice, match=why):
        xml_of(made, Syntax.UBL, profile)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"electronic_address": ""}, "the seller has no electronic address"),
        ({"phone": ""}, "the seller has no phone or no e-mail"),
        ({"vat_id": ""}, "the seller has no VAT id"),
        ({"name": "\x00"}, "the seller has no legal name"),
    ],
)
def test_seller_who_lacks_what_a_profile_asks_for_is_named(parts: dict[str, Any], why: str) -> None:
    seller: DocumentParty = replace(SELLER, **parts)
    with pytest.raises(NotAnEInvoice, match=why):
        xml_of(document(seller=seller), Syntax.CII, Profile.XRECHNUNG)


def test_xrechnung_says_what_german_receivers_ask_for() -> None:
    """BR-DE-1, 2, 5 to 7, 15, 21: payment, contact with phone and e-mail, reference, process."""
    xml = xml_of(document(buyer=GERMAN), Syntax.UBL, Profile.XRECHNUNG).decode()
    for needed in (
        "<cbc:PaymentMeansCode>30<",
        "<cbc:Telephone>+49 30 1234567<",
        "<cbc:ElectronicMail>billing@sluice.example<",
        "<cbc:BuyerReference>04011000-12345-67<",
        "xrechnung_3.0",
        '<cbc:EndpointID schemeID="EM">einkauf@beispiel.example<',
    ):
        assert needed in xml
    assert date(2026, 12, 1).isoformat() in xml
