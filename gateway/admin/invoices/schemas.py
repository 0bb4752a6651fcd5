"""Invoices with their lines."""

from datetime import date
from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt, PositiveInt

from billing.dunning.steps import StepName
from billing.history.event import HistoryKind
from billing.invoices.invoicing import LineKind
from billing.invoices.status import InvoiceStatus
from billing.outbox.event import EventType
from gateway.admin.parties.schemas import Rate
from gateway.api.schemas import Answer, At, Body, NoneIfEmpty, Page, Usd, read_from
from gateway.fields import Label


class InvoiceLine(Answer):
    """Usage of one component at one price, one adjustment, what a term of the organization adds,
    what a grant of credit has paid, or the rounding to cents. `transfers` is how many it sums."""

    seq: NonNegativeInt
    kind: LineKind
    project: str
    model: str
    service_tier: str = Field(validation_alias="tier")
    batch: bool
    component: str
    price_version: str
    grant: str = Field(validation_alias="grant_id")
    term: str = Field(validation_alias="term_id")
    description: str = Field(description="of a term", examples=["10 % discount, 2026-11"])
    simulated: bool = Field(
        validation_alias="is_simulated", description="of usage that simulated pools served"
    )
    quantity: int
    unit_price_usd_per_million: Usd = Field(validation_alias="unit_price_nanousd_per_mtok")
    amount_usd: Usd = Field(validation_alias=AliasPath("amount_nanousd"))
    amount_nanousd: int
    amount_cents: int = Field(
        description="whole cents; those of all lines sum to the total without tax"
    )
    service_start_us: int
    service_end_us: int
    transfers: NonNegativeInt


class LineCall(Answer):
    """A transfer behind a line, with what the line has of its amount. `request` is the call's id;
    a term has none."""

    transfer: str = Field(validation_alias="transfer_id")
    request: str | None = Field(validation_alias="rid")
    kind: str
    counts_at: At = Field(validation_alias="booked_us")
    amount_usd: Usd = Field(validation_alias=AliasPath("amount_nanousd"))
    amount_nanousd: int


class InvoiceTax(Answer):
    """The tax on all lines of one category and rate, or what one of several jurisdictions has of
    it. A draft has that of the rules of now."""

    category: str = Field(validation_alias=AliasPath("treatment", "category"))
    jurisdiction: str = Field(description="empty where the tax is of one alone")
    rate: Rate = Field(validation_alias=AliasPath("rate_ppm"))
    reason_code: str = Field(validation_alias=AliasPath("treatment", "reason_code"))
    note: str = Field(validation_alias=AliasPath("treatment", "note"))
    base_cents: int
    tax_cents: int


class OneOffLine(Body):
    description: Label = Field(examples=["Onboarding"])
    quantity: PositiveInt = Field(strict=True, le=10**9)
    unit_price_usd: Usd = Field(examples=["250.00"])


class OneOffBody(Body):
    """An invoice beside those of months, of lines that cost something."""

    organization: Label
    kind: Literal["one_off"] = "one_off"
    lines: list[OneOffLine] = Field(min_length=1, max_length=1000)


class ReasonBody(Body):
    reason: Label = Field(description="why; it is kept", examples=["wrong price"])


class VatCheck(Answer):
    """What was said of the buyer's VAT id last, before the invoice was issued."""

    vat_id: str = Field(examples=["ATU13585627"])
    valid: bool = Field(validation_alias="is_valid")
    consultation: str = Field(description="the number under which the answer is on record")
    checked_at: At = Field(validation_alias="checked_us")


class Converted(Answer):
    """What it says in another currency, at one rate: that of the day of issue, or of today while
    it is a draft."""

    currency: str = Field(validation_alias=AliasPath("conversion", "currency"), examples=["EUR"])
    units_per_usd: Usd = Field(
        validation_alias=AliasPath("conversion", "nano_per_usd"), description="decimal"
    )
    day: date = Field(validation_alias=AliasPath("conversion", "day"))
    source: str = Field(validation_alias=AliasPath("conversion", "source"), examples=["ECB"])
    tax: Usd = Field(validation_alias="tax_nano", description="decimal, in this currency")
    total: Usd = Field(validation_alias="total_nano", description="with tax")
    due: Usd = Field(validation_alias="due_nano", description="what is to be paid yet")


class ListedInvoice(Answer):
    """One organization, one month. `lines=true` lists invoices with their lines."""

    model_config = read_from("invoice")
    id: str = Field(validation_alias=AliasPath("invoice", "invoice_id"))
    organization: str = Field(validation_alias=AliasPath("invoice", "org"))
    period: str
    kind: Literal["month", "one_off"]
    status: InvoiceStatus = Field(
        validation_alias="status", description="`overdue` is open, and its day is past"
    )
    revision: int = Field(description="1, or higher where a void one was made anew")
    replaces: str | None = Field(validation_alias=AliasPath("invoice", "replaces_id"))
    draft_because: list[str] = Field(validation_alias="draft_because")
    parked_because: list[str] = Field(
        validation_alias="parked_because", description="those of them that a person must clear"
    )
    number: str | None = Field(
        validation_alias="number", description="a draft has none", examples=["SLU-2026-000001"]
    )
    currency: str
    period_start_us: int
    period_end_us: int
    subtotal_usd: Usd = Field(validation_alias=AliasPath("invoice", "subtotal_nanousd"))
    rounding_usd: Usd = Field(validation_alias=AliasPath("invoice", "rounding_nanousd"))
    discount_usd: Usd = Field(
        validation_alias=AliasPath("discount_nanousd"),
        description="what discounts have taken off the subtotal; credit is not among them",
    )
    net_usd: Usd = Field(
        validation_alias=AliasPath("net_nanousd"), description="what the lines sum to"
    )
    taxes: list[InvoiceTax] = Field(validation_alias=AliasPath("taxation", "parts"))
    tax_usd: Usd = Field(validation_alias=AliasPath("tax_nanousd"))
    total_usd: Usd = Field(validation_alias=AliasPath("total_nanousd"), description="with tax")
    total_cents: int = Field(validation_alias=AliasPath("payable_cents"))
    paid_usd: Usd = Field(validation_alias=AliasPath("paid_nanousd"))
    due_usd: Usd = Field(
        validation_alias=AliasPath("due_nanousd"),
        description="the total less what was paid; 0 of a void one",
    )
    converted: Converted | None = Field(
        validation_alias="converted", description="null where it says all in USD"
    )
    vat_check: VatCheck | None = Field(description="null where nobody was asked")
    computed_us: int


class Invoice(ListedInvoice):
    """One organization, one month, with its lines."""

    lines: list[InvoiceLine] = Field(validation_alias="priced_lines")


class HistoryDelivery(Answer):
    """How the telling of an event goes to one endpoint."""

    event: EventType
    mail: bool = Field(validation_alias="is_mailed", description="false: a webhook")
    state: Literal["pending", "delivered", "failed"]
    tries: NonNegativeInt
    changed_at: At = Field(validation_alias="changed_us")
    status: int | None = Field(description="of the last try; null where no answer came")
    problem: NoneIfEmpty


class InvoiceEvent(Answer):
    """What happened to an invoice. A draft has one `drafted`, of when it was written last; `held`
    and `approved` are the last word on it. `payment_back` is what the invoice gave up of a
    payment."""

    kind: HistoryKind
    at: At = Field(validation_alias="at_us")
    actor: NoneIfEmpty = Field(description="null where Sluice did it of itself, and for a draft")
    amount_usd: Usd | None = Field(validation_alias="amount_nanousd")
    reason: NoneIfEmpty
    reference: NoneIfEmpty = Field(
        description="the id of the payment, the credit note, the invoice or the endpoint"
    )
    name: NoneIfEmpty = Field(
        description="the number, the payment's external id, the step, or the id of what was told"
    )
    delivery: HistoryDelivery | None


class NextDunningStep(Answer):
    step: StepName
    day: date = Field(description="from which on it is taken, in UTC")


class InvoiceEvents(Page[InvoiceEvent]):
    """The oldest first. Deliveries are there until they are pruned."""

    next_dunning_step: NextDunningStep | None = Field(
        description="null where none comes, or nothing is left to pay"
    )
