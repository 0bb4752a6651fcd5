"""Invoices with their lines."""

from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt

from billing.invoices.invoicing import LineKind
from gateway.api.schemas import Answer, Body, Usd, read_from
from gateway.fields import Label


class InvoiceLine(Answer):
    """Usage of one component at one price, one adjustment, what a grant of credit has paid, or the
    rounding to cents. `transfers` is how many it sums."""

    seq: NonNegativeInt
    kind: LineKind
    project: str
    model: str
    service_tier: str = Field(validation_alias="tier")
    batch: bool
    component: str
    price_version: str
    grant: str = Field(validation_alias="grant_id")
    simulated: bool = Field(
        validation_alias="is_simulated", description="of usage that simulated pools served"
    )
    quantity: int
    unit_price_usd_per_million: Usd = Field(validation_alias="unit_price_nanousd_per_mtok")
    amount_usd: Usd = Field(validation_alias=AliasPath("amount_nanousd"))
    amount_nanousd: int
    service_start_us: int
    service_end_us: int
    transfers: NonNegativeInt


class VoidBody(Body):
    reason: Label = Field(description="why; it is kept", examples=["wrong price"])


class Invoice(Answer):
    """One organization, one month."""

    model_config = read_from("invoice")
    id: str = Field(validation_alias=AliasPath("invoice", "invoice_id"))
    organization: str = Field(validation_alias=AliasPath("invoice", "org"))
    period: str
    status: Literal["draft", "finalised", "void"] = Field(validation_alias="status")
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
    total_usd: Usd = Field(validation_alias="total_nanousd")
    total_cents: int
    computed_us: int
    lines: list[InvoiceLine] = Field(validation_alias="lines")
