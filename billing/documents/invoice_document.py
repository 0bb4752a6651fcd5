"""The document of an invoice as its rows stand: who, what, and what grants of credit have paid.

The one place that knows both. Promotional credit is a discount, paid credit a payment on account.
The rounding line of an invoice is left out: lines of a document have whole cents already. Taxes are
those of the invoice; nothing here decides which one holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from billing.credits.credit import Category
from billing.credits.grants import one
from billing.db.engine import Store
from billing.documents.composing import as_credit_note, compose
from billing.documents.descriptions import description_of, paid_credit, promotional_credit
from billing.documents.document import (
    Annex,
    AnnexRow,
    Document,
    DocumentAddress,
    DocumentKind,
    DocumentLine,
    DocumentParty,
    Heading,
    JurisdictionRate,
    Measure,
    Prepayment,
    Reduction,
    TaxCategory,
    TaxTreatment,
)
from billing.invoices.invoicing import LineKind
from billing.invoices.result import InvoiceResult
from billing.money import NANOUSD_PER_CENT
from billing.prices.rating import UNITS_PER_PRICE
from billing.prices.tariff import OF_UNITS, Component, kind_of
from billing.queries import GroupBy, usage_summary
from billing.taxes.taxation import Taxation

UNTAXED = {
    "en": "No tax is computed on this document.",
    "de": "In diesem Dokument ist keine Steuer berechnet.",
}
"""Of a seller without tax rules."""
MEASURES = {
    Component.REQUEST: Measure.CALL,
    Component.MINIMUM: Measure.CALL,
    Component.GPU_MS: Measure.MILLISECOND,
    **{component: Measure(component) for component in OF_UNITS},
}
ANNEXES = (GroupBy.PROJECT, GroupBy.KEY, GroupBy.DAY)
ANNEX_ROWS_MAX = 10_000
MICROSECONDS = 1_000_000
Row = Mapping[str, Any]


class BuyerTerms(NamedTuple):
    """What a buyer has agreed on. `due` is the last day of payment, once the document is issued."""

    due: date | None = None
    language: str = "en"
    buyer_reference: str = ""
    purchase_order: str = ""


NO_TERMS = BuyerTerms()


def party_named(name: str) -> DocumentParty:
    """Somebody of whom nothing but the name is known."""
    return DocumentParty(name, DocumentAddress((), "", "", ""))


SELLER = party_named("Sluice")
"""Of a document whose seller nobody has named."""


def document_of(
    result: InvoiceResult,
    *,
    seller: DocumentParty,
    buyer: DocumentParty,
    categories: Mapping[str, str],
    annexes: Sequence[Annex] = (),
    untaxed: TaxTreatment | None = None,
    terms: BuyerTerms = NO_TERMS,
) -> Document:
    """`categories` says of each grant on the invoice whether it is paid or promotional. `untaxed`
    is how lines are taxed of which the invoice says nothing: as of a seller without rules, where it
    is None. An invoice below zero is a credit note."""
    invoice = result.invoice
    note = UNTAXED.get(terms.language, UNTAXED["en"])
    treatments = _treatments(
        result.taxation, untaxed or TaxTreatment(TaxCategory.OUTSIDE, note=note)
    )
    sold, reduced, paid = _amounts(result.lines, categories, treatments, terms.language)
    heading = _heading(result, seller, buyer, terms)
    prepayments = []
    if paid:
        unpaid = compose(heading, sold, reductions=reduced).totals.net_cents
        left = (unpaid - invoice["total_cents"]) * NANOUSD_PER_CENT
        prepayments = [Prepayment(paid_credit(paid, terms.language), left)]
    document = compose(heading, sold, reductions=reduced, prepayments=prepayments, annexes=annexes)
    return as_credit_note(document) if result.payable_cents < 0 else document


def categories_of(store: Store, rows: Iterable[Row]) -> dict[str, str]:
    """Whether each grant on these lines is paid or promotional."""
    grants = {line["grant_id"] for line in rows} - {""}
    return {grant: one(store, grant).grant.category.value for grant in sorted(grants)}


def annexes_of(store: Store, org: str, start_us: int, end_us: int) -> tuple[Annex, ...]:
    """What the projects, keys and days of an organization used, the largest first, days in
    order."""
    return tuple(_annex(store, org, start_us, end_us, by) for by in ANNEXES)


def _annex(store: Store, org: str, start_us: int, end_us: int, by: GroupBy) -> Annex:
    sums = usage_summary(store, org, start_us, end_us, [by], limit=ANNEX_ROWS_MAX)
    rows = [
        AnnexRow(
            _day(each.group[by]).isoformat() if by is GroupBy.DAY else str(each.group[by]),
            each.requests,
            each.usage.prompt,
            each.usage.completion,
            each.amount_nanousd,
        )
        for each in sums
    ]
    if by is GroupBy.DAY:
        return Annex(by.value, tuple(sorted(rows, key=lambda row: row.name)))
    return Annex(by.value, tuple(sorted(rows, key=lambda row: (-row.amount_nanousd, row.name))))


def _heading(
    result: InvoiceResult,
    seller: DocumentParty,
    buyer: DocumentParty,
    terms: BuyerTerms,
) -> Heading:
    invoice, number = result.invoice, result.number
    return Heading(
        kind=DocumentKind.INVOICE,
        document_id=invoice["invoice_id"],
        number=number or "",
        issued=_day(invoice["computed_us"]) if number else None,
        due=terms.due,
        language=terms.language,
        buyer_reference=terms.buyer_reference,
        purchase_order=terms.purchase_order,
        period_start=_day(invoice["period_start_us"]),
        period_end=_day(invoice["period_end_us"]) - timedelta(days=1),
        seller=seller,
        buyer=buyer,
        currency=invoice["currency"],
        organization=invoice["org"],
        conversion=result.conversion,
    )


def _treatments(taxation: Taxation, untaxed: TaxTreatment) -> Mapping[int, TaxTreatment]:
    """By `seq` how a line is taxed."""
    treatments = [
        TaxTreatment(
            TaxCategory(category),
            *(rate_ppm, reason_code, note),
            tuple(JurisdictionRate(*share) for share in shares),
        )
        for category, rate_ppm, reason_code, note, shares in (
            tax.treatment for tax in taxation.amounts
        )
    ]
    by_seq = {seq: treatments[place - 1] for seq, place in taxation.places.items()}
    return defaultdict(lambda: untaxed, by_seq)


def _amounts(
    rows: Iterable[Row],
    categories: Mapping[str, str],
    treatments: Mapping[int, TaxTreatment],
    language: str,
) -> tuple[list[DocumentLine], list[Reduction], list[str]]:
    """What is sold, what lowers it, and the grants that have paid for it."""
    sold: list[DocumentLine] = []
    reduced: list[Reduction] = []
    paid: list[str] = []
    for line in rows:
        kind, grant, treatment = line["kind"], line["grant_id"], treatments[line["seq"]]
        if kind == LineKind.ROUNDING:  # cents are shared among the lines
            continue
        if kind == LineKind.DISCOUNT and line["amount_nanousd"] < 0:
            reduced.append(_reduction(line, line["description"], treatment))
        elif kind != LineKind.CREDIT:
            sold.append(_line(line, treatment, language))
        elif categories.get(grant) == Category.PAID:
            paid.append(grant)
        elif line["amount_nanousd"] > 0:
            sold.append(_line(line, treatment, language))
        else:
            reduced.append(_reduction(line, promotional_credit(grant, language), treatment))
    return sold, reduced, paid


def _reduction(line: Row, description: str, treatment: TaxTreatment) -> Reduction:
    return Reduction(line["seq"], line["kind"], description, -line["amount_nanousd"], treatment)


def _line(line: Row, treatment: TaxTreatment, language: str) -> DocumentLine:
    """An amount whose quantity has another sign, or none, is one piece."""
    amount, quantity = line["amount_nanousd"], line["quantity"]
    is_piece = quantity * amount < 0 or (amount and not quantity)
    component = line["component"]
    if line["kind"] == LineKind.ITEM:
        unit_price, base = abs(amount) // quantity, 1
    else:
        unit_price, base = line["unit_price_nanousd_per_mtok"], UNITS_PER_PRICE
    return DocumentLine(
        seq=line["seq"],
        kind=line["kind"],
        description=description_of(line, language),
        quantity=(1 if amount > 0 else -1) if is_piece else quantity,
        unit=Measure.PIECE if is_piece else _measure(component),
        unit_price_nanousd=abs(amount) if is_piece else unit_price,
        base_quantity=1 if is_piece else base,
        amount_nanousd=amount,
        tax=treatment,
        service_start=_day(line["service_start_us"]),
        service_end=_day(line["service_end_us"]) - timedelta(days=1),
        project=line["project"],
        model=line["model"],
        service_tier=line["tier"],
        batch=bool(line["batch"]),
        component=component,
        price_version=line["price_version"],
    )


def _measure(component: str) -> Measure:
    return MEASURES.get(kind_of(component), Measure.TOKEN) if component else Measure.PIECE


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // MICROSECONDS, UTC).date()
