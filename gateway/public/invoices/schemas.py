"""A tenant's own invoices."""

from pydantic import AliasPath, Field

from billing.invoices.status import InvoiceStatus
from gateway.admin.invoices.schemas import Converted, InvoiceLine
from gateway.api.schemas import Answer, Usd, read_from


class OwnInvoice(Answer):
    """One invoice without its lines: `/v1/organization/invoices/ID` has them."""

    model_config = read_from("invoice")
    id: str = Field(validation_alias=AliasPath("invoice", "invoice_id"))
    number: str | None = Field(validation_alias="number", description="a draft has none")
    period: str
    status: InvoiceStatus = Field(validation_alias="status")
    currency: str
    total_usd: Usd = Field(validation_alias="total_nanousd")
    total_cents: int = Field(validation_alias="payable_cents")
    paid_usd: Usd = Field(validation_alias="paid_nanousd")
    due_usd: Usd = Field(
        validation_alias="due_nanousd", description="the total less what was paid; 0 of a void one"
    )
    converted: Converted | None = Field(
        validation_alias="converted", description="null where it says all in USD"
    )


class OwnInvoiceInFull(OwnInvoice):
    """One invoice with its lines."""

    lines: list[InvoiceLine] = Field(validation_alias="priced_lines")
