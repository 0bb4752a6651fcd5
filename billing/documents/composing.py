"""Composing a document: cents for each amount, taxes for each treatment, and the totals.

Pure. Lines and reductions share the cents of their one sum, so the cents of a document never drift
from its nano-USD. The order in which they come does not matter: `seq` orders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from billing.cents import shared_cents, tax_of
from billing.documents.document import (
    Annex,
    Document,
    DocumentLine,
    DocumentTax,
    Heading,
    Prepayment,
    Reduction,
    TaxCategory,
    TaxTreatment,
    Totals,
    UnsoundDocument,
    bases,
)

WITHOUT_REASON = (TaxCategory.STANDARD, TaxCategory.ZERO)


def compose(
    heading: Heading,
    lines: Iterable[DocumentLine],
    *,
    reductions: Iterable[Reduction] = (),
    prepayments: Iterable[Prepayment] = (),
    annexes: Sequence[Annex] = (),
    taxes: Mapping[TaxTreatment, int] | None = None,
) -> Document:
    """The document of these amounts. A credit note says its `taxes`: they may be a cent off the
    rate, so that all credit notes of an invoice take exactly its tax back. Raises UnsoundDocument
    for a treatment that is none, two amounts with one `seq`, and a reduction below zero."""
    sold = sorted(lines, key=lambda line: line.seq)
    reduced = sorted(reductions, key=lambda each: each.seq)
    paid = sorted(prepayments, key=lambda each: (each.description, each.amount_nanousd))
    _check(sold, reduced)
    shared = _shared(sold, reduced)
    sold = [replace(each, amount_cents=shared[each.seq]) for each in sold]
    reduced = [replace(each, amount_cents=-shared[each.seq]) for each in reduced]
    of_paid = shared_cents([each.amount_nanousd for each in paid])
    paid = [replace(x, amount_cents=c) for x, c in zip(paid, of_paid, strict=True)]
    of_bases = tuple(
        DocumentTax(each, base, tax_of(base, each.rate_ppm) if taxes is None else taxes[each])
        for each, base in bases(sold, reduced).items()
    )
    totals = _totals(sold, reduced, of_bases, paid)
    return Document(
        heading, tuple(sold), tuple(reduced), tuple(paid), of_bases, totals, tuple(annexes)
    )


def _shared(lines: Sequence[DocumentLine], reductions: Sequence[Reduction]) -> dict[int, int]:
    """Cents by `seq`: all share those of one sum, in the order of their places."""
    amounts = {each.seq: each.amount_nanousd for each in lines}
    amounts |= {each.seq: -each.amount_nanousd for each in reductions}
    places = sorted(amounts)
    return dict(zip(places, shared_cents([amounts[seq] for seq in places]), strict=True))


def _totals(
    lines: Sequence[DocumentLine],
    reductions: Sequence[Reduction],
    taxes: Sequence[DocumentTax],
    prepayments: Sequence[Prepayment],
) -> Totals:
    of_lines = sum(line.amount_cents for line in lines)
    of_reductions = sum(each.amount_cents for each in reductions)
    tax = sum(each.tax_cents for each in taxes)
    paid = sum(each.amount_cents for each in prepayments)
    net = of_lines - of_reductions
    return Totals(of_lines, of_reductions, net, tax, net + tax, paid, net + tax - paid)


def _check(
    lines: Sequence[DocumentLine],
    reductions: Sequence[Reduction],
) -> None:
    places = [line.seq for line in lines] + [each.seq for each in reductions]
    if len(set(places)) != len(places):
        raise UnsoundDocument("two amounts have one place (seq)")
    for each in reductions:
        if each.amount_nanousd < 0:
            raise UnsoundDocument(f"below zero: {each.description}")
    for treatment in {x.tax for x in lines} | {x.tax for x in reductions}:
        _check_treatment(treatment)


def _check_treatment(treatment: TaxTreatment) -> None:
    has_rate = treatment.category is TaxCategory.STANDARD
    if has_rate != (treatment.rate_ppm > 0):
        raise UnsoundDocument(f"category {treatment.category} with rate {treatment.rate_ppm} ppm")
    has_reason = bool(treatment.reason_code or treatment.note)
    if has_reason == (treatment.category in WITHOUT_REASON):
        raise UnsoundDocument(f"category {treatment.category}: a reason is missing or too many")
