"""The document of a credit note, of the document of its invoice: the same parties and treatments.

Pure. Lines of the invoice keep their words; an amount on no line in particular is one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from billing.documents.composing import compose
from billing.documents.document import (
    Document,
    DocumentKind,
    DocumentLine,
    Measure,
    Preceding,
    TaxTreatment,
)
from billing.documents.forms.words import printed_language
from billing.money import NANOUSD_PER_CENT

MICROSECONDS = 1_000_000
CREDIT_ON = {"en": "Credit on", "de": "Gutschrift zu"}
Row = Mapping[str, Any]


def note_document(
    note: Row,
    number: str,
    lines: Iterable[Row],
    taxes: Mapping[int, tuple[int, ...]],
    of: Document,
) -> Document:
    """`of` is the document of the invoice that it credits; its taxes stand in their places."""
    heading, issued = of.heading, _day(note["created_us"])
    assert heading.issued is not None, "a draft is not credited"
    credited = replace(
        heading,
        kind=DocumentKind.CREDIT_NOTE,
        document_id=note["note_id"],
        number=number,
        issued=issued,
        due=issued,
        terms="",
        notes=(),
        preceding=Preceding(heading.number, heading.issued),
        reason=note["reason"],
    )
    taken = {_treatment(of, place): cents for place, cents in taxes.items()}
    return compose(credited, _lines(lines, of), taxes=taken)


def _lines(rows: Iterable[Row], of: Document) -> Iterator[DocumentLine]:
    billed = {line.seq: line for line in of.lines}
    for row in rows:
        amount = row["amount_cents"] * NANOUSD_PER_CENT
        line = billed.get(row["line_seq"])
        if line is not None and row["quantity"]:
            yield replace(line, seq=row["seq"], quantity=row["quantity"], amount_nanousd=amount)
            continue
        piece = line or DocumentLine(
            seq=row["seq"],
            kind="credit_note",
            description=f"{CREDIT_ON[printed_language(of.heading.language)]} {of.heading.number}",
            quantity=1,
            unit=Measure.PIECE,
            unit_price_nanousd=amount,
            base_quantity=1,
            amount_nanousd=amount,
            tax=_treatment(of, row["tax_place"]),
            service_start=of.heading.period_start,
            service_end=of.heading.period_end,
        )
        yield replace(
            piece,
            seq=row["seq"],
            quantity=1,
            unit=Measure.PIECE,
            unit_price_nanousd=amount,
            base_quantity=1,
            amount_nanousd=amount,
        )


def _treatment(of: Document, place: int) -> TaxTreatment:
    """Of an invoice without taxes there is one, whose place is 0."""
    return of.taxes[max(place, 1) - 1].treatment


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // MICROSECONDS, UTC).date()
