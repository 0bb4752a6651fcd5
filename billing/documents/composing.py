"""Composing a document: cents for each amount, taxes for each treatment, and the totals.

Pure. Lines and reductions share the cents of their one sum, so the cents of a document never drift
from its nano-USD. The order in which they come does not matter: `seq` orders them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from billing.cents import cents_by_group, shared_cents, taxes_of
from billing.documents.document import (
    Annex,
    Document,
    DocumentKind,
    DocumentLine,
    DocumentTax,
    Heading,
    Measure,
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
    taxes: Mapping[TaxTreatment, tuple[int, ...]] | None = None,
) -> Document:
    """The document of these amounts. A credit note says its `taxes`: they may be a cent off the
    rate, so that all credit notes of an invoice take exactly its tax back. Of a treatment that
    jurisdictions share there is one for each. Raises UnsoundDocument
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
        _tax(each, base, taxes_of(base, each.rates_ppm) if taxes is None else taxes[each])
        for each, base in bases(sold, reduced).items()
    )
    totals = _totals(sold, reduced, of_bases, paid)
    return Document(
        heading, tuple(sold), tuple(reduced), tuple(paid), of_bases, totals, tuple(annexes)
    )


def _tax(treatment: TaxTreatment, base_cents: int, cents: tuple[int, ...]) -> DocumentTax:
    return DocumentTax(treatment, base_cents, sum(cents), cents if treatment.shares else ())


def as_credit_note(document: Document) -> Document:
    """The credit note that says what an invoice below zero says: every amount has the other sign,
    and what lowered the invoice is a line."""
    heading = replace(
        document.heading,
        kind=DocumentKind.CREDIT_NOTE,
        due=document.heading.issued,
        terms="",
    )
    taken = [
        replace(
            line,
            quantity=-line.quantity,
            amount_nanousd=-line.amount_nanousd,
            amount_cents=-line.amount_cents,
        )
        for line in document.lines
    ]
    reductions = [_as_line(each, heading) for each in document.reductions]
    lines = sorted((*taken, *reductions), key=lambda line: line.seq)
    taxes = [
        replace(
            tax,
            base_cents=-tax.base_cents,
            tax_cents=-tax.tax_cents,
            shares_cents=tuple(-cents for cents in tax.shares_cents),
        )
        for tax in document.taxes
    ]
    paid = [
        replace(each, amount_nanousd=-each.amount_nanousd, amount_cents=-each.amount_cents)
        for each in document.prepayments
    ]
    totals = _totals(lines, (), taxes, paid)
    return Document(heading, tuple(lines), (), tuple(paid), tuple(taxes), totals, document.annexes)


def _as_line(reduction: Reduction, heading: Heading) -> DocumentLine:
    return DocumentLine(
        seq=reduction.seq,
        kind=reduction.kind,
        description=reduction.description,
        quantity=1,
        unit=Measure.PIECE,
        unit_price_nanousd=reduction.amount_nanousd,
        base_quantity=1,
        amount_nanousd=reduction.amount_nanousd,
        amount_cents=reduction.amount_cents,
        tax=reduction.tax,
        service_start=heading.period_start,
        service_end=heading.period_end,
    )


def _shared(lines: Sequence[DocumentLine], reductions: Sequence[Reduction]) -> dict[int, int]:
    """Cents by `seq`: all share those of one sum, by how they are taxed, in the order of their
    places."""
    amounts = {each.seq: each.amount_nanousd for each in lines}
    amounts |= {each.seq: -each.amount_nanousd for each in reductions}
    taxed = {each.seq: each.tax for each in lines} | {each.seq: each.tax for each in reductions}
    places = sorted(amounts)
    shared = cents_by_group([amounts[seq] for seq in places], [taxed[seq] for seq in places])
    return dict(zip(places, shared, strict=True))


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
    if treatment.shares and sum(treatment.rates_ppm) != treatment.rate_ppm:
        raise UnsoundDocument("the rates of jurisdictions do not sum to the rate")
    has_reason = bool(treatment.reason_code or treatment.note)
    if has_reason == (treatment.category in WITHOUT_REASON):
        raise UnsoundDocument(f"category {treatment.category}: a reason is missing or too many")
