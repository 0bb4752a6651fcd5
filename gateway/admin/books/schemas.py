"""What organizations owe, by age, and months whose books are closed."""

from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt

from gateway.api.schemas import Answer, At, Usd


class ClosedPeriodAnswer(Answer):
    """A month whose books are closed, with all that the ledger had up to its end."""

    object: Literal["closed_period"] = "closed_period"
    period: str = Field(examples=["2026-10"])
    closed_at: At = Field(validation_alias="closed_us")
    closed_by: str
    transfers: NonNegativeInt
    amount_usd: Usd = Field(validation_alias="amount_nanousd", description="their sum")


class ReceivableAnswer(Answer):
    """Due amounts by days since they were due. What is on account is not taken off."""

    organization: str = Field(validation_alias=AliasPath("org"))
    due_usd: Usd = Field(validation_alias=AliasPath("nanousd", "due"))
    current_usd: Usd = Field(validation_alias=AliasPath("nanousd", "current"))
    days_1_30_usd: Usd = Field(validation_alias=AliasPath("nanousd", "days_1_30"))
    days_31_60_usd: Usd = Field(validation_alias=AliasPath("nanousd", "days_31_60"))
    days_61_90_usd: Usd = Field(validation_alias=AliasPath("nanousd", "days_61_90"))
    days_over_90_usd: Usd = Field(validation_alias=AliasPath("nanousd", "days_over_90"))
    on_account_usd: Usd = Field(validation_alias=AliasPath("nanousd", "on_account"))
