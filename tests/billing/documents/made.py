"""Documents for the tests: a seller, buyers, lines and what is composed of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from billing.documents.composing import compose
from billing.documents.document import (
    Document,
    DocumentAddress,
    DocumentKind,
    DocumentLine,
    DocumentParty,
    Heading,
    Measure,
    TaxCategory,
    TaxTreatment,
)

STANDARD = TaxTreatment(TaxCategory.STANDARD, 190_000)
REDUCED = TaxTreatment(TaxCategory.STANDARD, 70_000)
ZERO = TaxTreatment(TaxCategory.ZERO)
EXEMPT = TaxTreatment(TaxCategory.EXEMPT, 0, "VATEX-EU-132", "Exempt from VAT")
REVERSE = TaxTreatment(TaxCategory.REVERSE_CHARGE, 0, "VATEX-EU-AE", "Reverse charge")
EXPORT = TaxTreatment(TaxCategory.EXPORT, 0, "VATEX-EU-G", "Export outside the EU")
OUTSIDE = TaxTreatment(TaxCategory.OUTSIDE, 0, "VATEX-EU-O", "Not subject to VAT")
TREATMENTS = (STANDARD, REDUCED, ZERO, EXEMPT, REVERSE, EXPORT, OUTSIDE)

SELLER = DocumentParty(
    name="Sluice Inference GmbH",
    address=DocumentAddress(("Torstrasse 1",), "Berlin", "10119", "DE"),
    vat_id="DE136695976",
    tax_id="30/123/45678",
    email="billing@sluice.example",
    phone="+49 30 1234567",
    electronic_address="EM:billing@sluice.example",
    iban="DE89370400440532013000",
)
GERMAN = DocumentParty(
    name="Beispiel AG",
    address=DocumentAddress(("Marienplatz 8",), "München", "80331", "DE"),
    vat_id="DE129273398",
    email="einkauf@beispiel.example",
    electronic_address="EM:einkauf@beispiel.example",
)
FRENCH = DocumentParty(
    name="Exemple SA",
    address=DocumentAddress(("1 rue de Rivoli",), "Paris", "75001", "FR"),
    vat_id="FR40303265045",
    electronic_address="EM:achats@exemple.example",
)
AMERICAN = DocumentParty(
    name="Example Inc.",
    address=DocumentAddress(("1 Market Street",), "San Francisco", "94105", "US", "CA"),
    tax_id="12-3456789",
    electronic_address="EM:ap@example.example",
)
FIRST_DAY, LAST_DAY = date(2026, 11, 1), date(2026, 11, 30)


def heading(**changes: Any) -> Heading:
    plain = Heading(
        kind=DocumentKind.INVOICE,
        document_id="inv_1",
        number="SLU-2026-000001",
        issued=date(2026, 12, 1),
        due=date(2026, 12, 31),
        period_start=FIRST_DAY,
        period_end=LAST_DAY,
        seller=SELLER,
        buyer=GERMAN,
        organization="org_1",
        buyer_reference="04011000-12345-67",
        terms="30 days net",
    )
    return replace(plain, **changes)


def line(seq: int = 1, **changes: Any) -> DocumentLine:
    """1,234,567 tokens at 0.60 USD a million: 0.7407402 USD."""
    plain = DocumentLine(
        seq=seq,
        kind="usage",
        description="tale-large, input tokens",
        quantity=1_234_567,
        unit=Measure.TOKEN,
        unit_price_nanousd=600_000_000,
        base_quantity=1_000_000,
        amount_nanousd=740_740_200,
        tax=STANDARD,
        service_start=FIRST_DAY,
        service_end=LAST_DAY,
        project="prj_1",
        model="tale-large",
        service_tier="default",
        component="input",
        price_version="pv_1",
    )
    return replace(plain, **changes)


def document(lines: Sequence[DocumentLine] | None = None, **parts: Any) -> Document:
    of_heading = {name: parts.pop(name) for name in list(parts) if name in Heading.__slots__}
    return compose(heading(**of_heading), [line()] if lines is None else lines, **parts)
