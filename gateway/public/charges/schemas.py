"""What the running month of an organization has come to, and may come to."""

from typing import Literal

from pydantic import AliasPath, Field

from gateway.admin.invoices.schemas import InvoiceLine
from gateway.api.schemas import Answer, At, Usd


class ForecastUsd(Answer):
    """Four times of five it comes between `low` and `high`."""

    low: Usd
    expected: Usd
    high: Usd


class OwnCharges(Answer):
    """What the invoice of this month would say now."""

    object: Literal["current_charges"] = "current_charges"
    organization: str = Field(validation_alias="org")
    period: str = Field(validation_alias=AliasPath("month", "name"), examples=["2026-11"])
    as_of: At = Field(validation_alias="now_us")
    currency: Literal["USD"] = "USD"
    net_usd: Usd = Field(validation_alias="net_nanousd", description="without tax")
    tax_usd: Usd = Field(validation_alias="tax_nanousd")
    total_usd: Usd = Field(validation_alias="total_nanousd")
    forecast_usd: ForecastUsd = Field(
        validation_alias="forecast",
        description="of the month at its end, without tax: as the days before went, after its"
        " terms, less what credit has paid so far",
    )
    lines: list[InvoiceLine]
