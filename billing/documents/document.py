"""A document of the books as a value: who bills whom, for what, with which taxes, and what is due.

Pure and frozen. Every other form (PDF, CII, UBL, CSV, JSON, FOCUS) is made of this value alone, so
it has all that they say, and none of them reckons. An amount has exact nano-USD and whole cents.
`composing.compose` makes one; a document whose sums do not hold cannot be made (UnsoundDocument).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from billing.cents import tax_of
from billing.currencies.conversion import Conversion, Converted
from billing.money import NANOUSD_PER_CENT


class UnsoundDocument(ValueError):
    """The sums of a document do not hold, or it says what no document may."""


CREDITED_TAX_OFF_CENTS = 2
"""How far the tax of a credit note may be off its rate: all notes together are within a cent."""


class DocumentKind(StrEnum):
    """What the document is. A draft has no number, whatever its kind."""

    INVOICE = "invoice"
    CREDIT_NOTE = "credit_note"
    RECEIPT = "receipt"
    STATEMENT = "statement"


class TaxCategory(StrEnum):
    """The codes of UNTDID 5305 that EN 16931 knows and services need."""

    STANDARD = "S"
    ZERO = "Z"
    EXEMPT = "E"
    REVERSE_CHARGE = "AE"
    EXPORT = "G"
    OUTSIDE = "O"


class Measure(StrEnum):
    """What a quantity counts."""

    TOKEN = "token"
    CALL = "call"
    MILLISECOND = "ms"
    SEARCH_UNIT = "search_unit"
    IMAGE = "image"
    SECOND = "second"
    CHARACTER = "character"
    PIECE = "piece"


@dataclass(frozen=True, slots=True)
class DocumentAddress:
    """`country` is two letters of ISO 3166."""

    lines: tuple[str, ...]
    city: str
    postal_code: str
    country: str
    region: str = ""


@dataclass(frozen=True, slots=True)
class DocumentParty:
    """A seller or a buyer, as the document froze it. `electronic_address` is SCHEME:ID."""

    name: str
    address: DocumentAddress
    vat_id: str = ""
    tax_id: str = ""
    email: str = ""
    phone: str = ""
    electronic_address: str = ""
    iban: str = ""


@dataclass(frozen=True, slots=True, order=True)
class JurisdictionRate:
    """What one of several jurisdictions asks for."""

    jurisdiction: str
    rate_ppm: int


@dataclass(frozen=True, slots=True, order=True)
class TaxTreatment:
    """How an amount is taxed. `rate_ppm` is in millionths: 19 % is 190,000. All but `S` and `Z`
    need a reason: a code of the VATEX list, a note, or both. Where jurisdictions share it, the rate
    is the sum of theirs."""

    category: TaxCategory
    rate_ppm: int = 0
    reason_code: str = ""
    note: str = ""
    shares: tuple[JurisdictionRate, ...] = ()

    @property
    def rates_ppm(self) -> tuple[int, ...]:
        return tuple(each.rate_ppm for each in self.shares) or (self.rate_ppm,)


@dataclass(frozen=True, slots=True)
class DocumentLine:
    """One thing sold. `unit_price_nanousd` is for `base_quantity` units and never below zero. What
    is taken back has a quantity and an amount below zero. `service_end` is the last day."""

    seq: int
    kind: str
    description: str
    quantity: int
    unit: Measure
    unit_price_nanousd: int
    base_quantity: int
    amount_nanousd: int
    tax: TaxTreatment
    service_start: date
    service_end: date
    project: str = ""
    model: str = ""
    service_tier: str = ""
    batch: bool = False
    component: str = ""
    price_version: str = ""
    amount_cents: int = 0

    def as_priced(self) -> DocumentLine:
        """The line as forms state it that multiply. Its price times its quantity is its amount, but
        for a rounding of each call. Where that does not hold, as in a minimum per call, the line is
        one piece at the price of the whole amount."""
        product = self.quantity * self.unit_price_nanousd
        error = abs(product - self.amount_nanousd * self.base_quantity)
        rounding_max = min(abs(self.quantity) // 2 + 1, NANOUSD_PER_CENT // 2)
        if error <= rounding_max * self.base_quantity:
            return self
        return replace(
            self,
            quantity=1 if self.amount_nanousd >= 0 else -1,
            unit=Measure.PIECE,
            unit_price_nanousd=abs(self.amount_nanousd),
            base_quantity=1,
        )


@dataclass(frozen=True, slots=True)
class Reduction:
    """A discount on the whole document, as promotional credit is: it lowers what is taxed. Its
    amount is above zero."""

    seq: int
    kind: str
    description: str
    amount_nanousd: int
    tax: TaxTreatment
    amount_cents: int = 0


@dataclass(frozen=True, slots=True)
class Prepayment:
    """A payment on account, as paid credit is: it lowers what is due, and no tax. Its amount is
    below zero where a correction gave credit back."""

    description: str
    amount_nanousd: int
    amount_cents: int = 0


@dataclass(frozen=True, slots=True)
class StatedTax:
    """A tax as a document states it: of one jurisdiction, or of a treatment that knows none."""

    jurisdiction: str
    rate_ppm: int
    tax_cents: int


@dataclass(frozen=True, slots=True)
class DocumentTax:
    """The tax of all amounts of one treatment. `shares_cents` has what each jurisdiction that
    shares it asks for, rounded for itself; they sum to it."""

    treatment: TaxTreatment
    base_cents: int
    tax_cents: int
    shares_cents: tuple[int, ...] = ()

    @property
    def shares(self) -> tuple[StatedTax, ...]:
        if not self.treatment.shares:
            return (StatedTax("", self.treatment.rate_ppm, self.tax_cents),)
        return tuple(
            StatedTax(each.jurisdiction, each.rate_ppm, cents)
            for each, cents in zip(self.treatment.shares, self.shares_cents, strict=True)
        )

    def is_of_its_rates(self, off_cents: int) -> bool:
        """Whether each share is the rate of its base, and the shares sum to the tax."""
        shares = self.shares
        return self.tax_cents == sum(each.tax_cents for each in shares) and all(
            abs(each.tax_cents - tax_of(self.base_cents, each.rate_ppm)) <= off_cents
            for each in shares
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """In cents. `net` is `lines` less `reductions`; `total` is `net` plus `tax`; `due` is `total`
    less `paid`."""

    lines_cents: int
    reductions_cents: int
    net_cents: int
    tax_cents: int
    total_cents: int
    paid_cents: int
    due_cents: int


@dataclass(frozen=True, slots=True)
class AnnexRow:
    """What one project, key or day used. Knows no tax and no credit."""

    name: str
    calls: int
    input_tokens: int
    output_tokens: int
    amount_nanousd: int


@dataclass(frozen=True, slots=True)
class Annex:
    """Usage by `project`, `key` or `day`. Rows of days are named YYYY-MM-DD."""

    by: str
    rows: tuple[AnnexRow, ...]


@dataclass(frozen=True, slots=True)
class Preceding:
    """The document that this one credits or replaces."""

    number: str
    issued: date


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands above the lines. A draft has no number and no date of issue. `language` is `en`
    or `de`. `period_end` is the last day."""

    kind: DocumentKind
    document_id: str
    number: str
    issued: date | None
    due: date | None
    period_start: date
    period_end: date
    seller: DocumentParty
    buyer: DocumentParty
    currency: str = "USD"
    language: str = "en"
    organization: str = ""
    buyer_reference: str = ""
    purchase_order: str = ""
    terms: str = ""
    preceding: Preceding | None = None
    reason: str = ""
    notes: tuple[str, ...] = ()
    conversion: Conversion | None = None

    @property
    def is_draft(self) -> bool:
        return not self.number


@dataclass(frozen=True, slots=True)
class Document:
    """The whole. Raises UnsoundDocument where a sum does not hold."""

    heading: Heading
    lines: tuple[DocumentLine, ...]
    reductions: tuple[Reduction, ...]
    prepayments: tuple[Prepayment, ...]
    taxes: tuple[DocumentTax, ...]
    totals: Totals
    annexes: tuple[Annex, ...] = ()

    @property
    def converted(self) -> Converted | None:
        """None where it is in its own currency alone."""
        rate, totals = self.heading.conversion, self.totals
        amounts = totals.tax_cents, totals.total_cents, totals.due_cents
        return None if rate is None else Converted(rate, *map(rate.cents, amounts))

    def __post_init__(self) -> None:
        for law, holds in _laws(self):
            if not holds:
                raise UnsoundDocument(law)


def bases(
    lines: Iterable[DocumentLine], reductions: Iterable[Reduction]
) -> dict[TaxTreatment, int]:
    """Cents to tax by treatment, in order of treatments."""
    sums: dict[TaxTreatment, int] = {}
    for line in lines:
        sums[line.tax] = sums.get(line.tax, 0) + line.amount_cents
    for reduction in reductions:
        sums[reduction.tax] = sums.get(reduction.tax, 0) - reduction.amount_cents
    return dict(sorted(sums.items()))


def _laws(document: Document) -> Iterable[tuple[str, bool]]:
    totals, lines, reductions = document.totals, document.lines, document.reductions
    yield "unit prices are not below zero", all(line.unit_price_nanousd >= 0 for line in lines)
    yield (
        "what is taken back has a quantity below zero",
        all(line.quantity * line.amount_nanousd >= 0 for line in lines),
    )
    yield "lines sum to their total", totals.lines_cents == sum(x.amount_cents for x in lines)
    yield (
        "reductions sum to their total",
        totals.reductions_cents == sum(each.amount_cents for each in reductions),
    )
    yield (
        "net is lines less reductions",
        (totals.net_cents == totals.lines_cents - totals.reductions_cents),
    )
    stated = {tax.treatment: tax.base_cents for tax in document.taxes}
    yield "each treatment has its base", stated == bases(lines, reductions)
    is_credit = document.heading.kind is DocumentKind.CREDIT_NOTE
    yield (
        "each tax is its rate of its base",
        all(
            tax.is_of_its_rates(is_credit * CREDITED_TAX_OFF_CENTS * len(tax.shares))
            for tax in document.taxes
        ),
    )
    yield "taxes sum to their total", totals.tax_cents == sum(x.tax_cents for x in document.taxes)
    yield "total is net plus tax", totals.total_cents == totals.net_cents + totals.tax_cents
    yield (
        "prepayments sum to what is paid",
        totals.paid_cents == sum(each.amount_cents for each in document.prepayments),
    )
    yield "due is total less paid", totals.due_cents == totals.total_cents - totals.paid_cents
