"""The months that finance departments meet, each as a document."""

from __future__ import annotations

from datetime import date
from typing import Any

from billing.currencies.conversion import Conversion
from billing.documents.document import (
    Document,
    DocumentAddress,
    DocumentKind,
    DocumentLine,
    DocumentParty,
    Measure,
    Preceding,
    Prepayment,
    Reduction,
)
from tests.billing.documents.made import (
    AMERICAN,
    EXEMPT,
    EXPORT,
    FRENCH,
    OUTSIDE,
    REDUCED,
    REVERSE,
    STANDARD,
    ZERO,
    document,
    line,
)

USD = 10**9
BEFORE = Preceding("SLU-2026-000001", date(2026, 12, 1))
LONG = DocumentParty(
    name=("Gesellschaft für Sprachmodelle und Verwandtes " * 12)[:500],
    address=DocumentAddress(
        ("a" * 100, "b" * 100, "c" * 100, "d" * 100), "c" * 80, "12345-6789", "DE"
    ),
    vat_id="DE129273398",
    electronic_address="EM:long@example.example",
)
HOSTILE = DocumentParty(
    name="שלום <b>&amp;\x00]]> \u202eevil\u202c =cmd|'/C calc'!A0",
    address=DocumentAddress(('#import "/etc/passwd"', "שדרות רוטשילד 1"), "تونس", "1000", "TN"),
    vat_id="TN1234567A",
    electronic_address="EM:hostile@example.example",
)


def _piece(seq: int, cents: int, **changes: Any) -> DocumentLine:
    nanousd = cents * USD // 100
    return line(
        seq,
        kind="item",
        description="Onboarding",
        quantity=1,
        unit=Measure.PIECE,
        unit_price_nanousd=nanousd,
        base_quantity=1,
        amount_nanousd=nanousd,
        **changes,
    )


CASES: dict[str, Document] = {
    "domestic": document([line(1), line(2, component="output", quantity=7, amount_nanousd=4_200)]),
    "reverse_charge": document([line(tax=REVERSE)], buyer=FRENCH),
    "export": document([line(tax=EXPORT)], buyer=AMERICAN),
    "exempt": document([line(tax=EXEMPT)]),
    "zero_rated": document([line(tax=ZERO)]),
    "outside_of_vat": document([line(tax=OUTSIDE)], buyer=AMERICAN),
    "mixed_rates": document([line(1), line(2, tax=REDUCED), line(3, tax=ZERO)]),
    "discount": document(
        [line(1, amount_nanousd=740_740_200)],
        reductions=[Reduction(2, "discount", "10 % until March", 74_074_020, STANDARD)],
    ),
    "discount_over_two_rates": document(
        [line(1), line(2, tax=REDUCED)],
        reductions=[
            Reduction(3, "discount", "welcome", 123_456_789, STANDARD),
            Reduction(4, "discount", "welcome", 23_456_789, REDUCED),
        ],
    ),
    "promotional_credit": document(
        reductions=[Reduction(2, "credit", "promotional credit gr_1", 333_333_333, STANDARD)]
    ),
    "commitment": document(
        [
            line(1),
            line(
                2,
                kind="minimum",
                description="Minimum commitment, what is lacking to it",
                quantity=1,
                unit=Measure.PIECE,
                unit_price_nanousd=499_259_259_800,
                base_quantity=1,
                amount_nanousd=499_259_259_800,
            ),
        ]
    ),
    "prepaid": document(prepayments=[Prepayment("paid credit gr_2", 500_000_000)]),
    "paid_in_full": document(
        [line(amount_nanousd=USD, quantity=1_666_667)],
        prepayments=[Prepayment("paid credit gr_2", 1_190_000_000)],
        due=None,
        terms="",
    ),
    "late_usage": document(
        [
            line(1),
            line(2, service_start=date(2026, 10, 1), service_end=date(2026, 10, 31)),
        ]
    ),
    "adjustment": document(
        [line(1), line(2, kind="adjustment", quantity=-1_000, amount_nanousd=-600_000)]
    ),
    "minimum_per_call": document(
        [
            line(
                component="minimum",
                quantity=3,
                unit=Measure.CALL,
                unit_price_nanousd=10**15,
                amount_nanousd=27_654_321,
            )
        ]
    ),
    "gpu_time": document(
        [
            line(
                component="gpu_ms",
                unit=Measure.MILLISECOND,
                quantity=3_600_000,
                unit_price_nanousd=700 * USD,
                amount_nanousd=2_520 * USD,
            )
        ]
    ),
    "one_off": document([_piece(1, 250_000), _piece(2, 1)]),
    "credit_note": document(
        kind=DocumentKind.CREDIT_NOTE,
        number="SLU-CN-2026-000001",
        preceding=BEFORE,
        reason="Latency was above what was agreed",
    ),
    "credit_note_reverse_charge": document(
        [line(tax=REVERSE)],
        buyer=FRENCH,
        kind=DocumentKind.CREDIT_NOTE,
        number="SLU-CN-2026-000002",
        preceding=BEFORE,
        reason="cancelled",
    ),
    "reissued": document(number="SLU-2026-000002", preceding=BEFORE),
    "tax_in_euros": document(
        conversion=Conversion("EUR", 925_000_000, date(2026, 11, 30), "ECB"),
    ),
    "one_nano_dollar": document([line(quantity=1, unit_price_nanousd=1_000, amount_nanousd=1)]),
    "large": document(
        [line(quantity=10**15, unit_price_nanousd=600_000_000, amount_nanousd=6 * 10**17)]
    ),
    "purchase_order": document(purchase_order="PO-4711", notes=("Thank you.", "Second note.")),
    "long_names": document([line(description="x" * 500)], buyer=LONG),
    "hostile_text": document(
        [line(description="</cbc:Name><x> =1+1 \u202e", project="\x1b[2J")],
        buyer=HOSTILE,
        buyer_reference="@ref",
    ),
    "thousand_lines": document(
        [line(seq, quantity=seq * 997, amount_nanousd=seq * 598_200) for seq in range(1, 1_001)]
    ),
}
