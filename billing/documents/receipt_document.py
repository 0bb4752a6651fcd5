"""The document of a top-up: a receipt over an advance payment.

Pure. It has no tax: what the credit will pay for is not known yet, so the tax is on the invoices of
the months in which it is used, which take the credit as a payment on account.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from billing.currencies.conversion import Conversion
from billing.documents.composing import compose
from billing.documents.document import (
    Document,
    DocumentKind,
    DocumentLine,
    DocumentParty,
    Heading,
    Measure,
    Prepayment,
    TaxCategory,
    TaxTreatment,
)
from billing.money import NANOUSD_PER_CENT

MICROSECONDS = 1_000_000
LINE_KIND = "top_up"
ADVANCE = {"en": "Advance payment for usage", "de": "Anzahlung auf künftige Nutzung"}
UNTAXED = {
    "en": "An advance payment is not taxed. The tax is on the invoice of the month of use.",
    "de": "Die Anzahlung wird nicht besteuert. Die Steuer steht auf der Rechnung des Monats der"
    " Nutzung.",
}


def receipt_document(
    top_up: Mapping[str, Any],
    number: str,
    *,
    seller: DocumentParty,
    buyer: DocumentParty,
    language: str = "en",
    conversion: Conversion | None = None,
) -> Document:
    """It is paid in full by the money that it is a receipt of."""
    received, amount = _day(top_up["received_us"]), top_up["amount_cents"] * NANOUSD_PER_CENT
    spoken = language if language in ADVANCE else "en"
    heading = Heading(
        kind=DocumentKind.RECEIPT,
        document_id=top_up["top_up_id"],
        number=number,
        issued=_day(top_up["created_us"]),
        due=None,
        period_start=received,
        period_end=received,
        seller=seller,
        buyer=buyer,
        currency=top_up["currency"],
        language=spoken,
        organization=top_up["org"],
        reason=top_up["note"],
        notes=(UNTAXED[spoken],),
        conversion=conversion,
    )
    line = DocumentLine(
        seq=1,
        kind=LINE_KIND,
        description=ADVANCE[spoken],
        quantity=1,
        unit=Measure.PIECE,
        unit_price_nanousd=amount,
        base_quantity=1,
        amount_nanousd=amount,
        tax=TaxTreatment(TaxCategory.OUTSIDE, note=UNTAXED[spoken]),
        service_start=received,
        service_end=received,
    )
    return compose(heading, [line], prepayments=[Prepayment(top_up["external_id"], amount)])


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // MICROSECONDS, UTC).date()
