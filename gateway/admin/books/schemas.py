"""What organizations owe, by age."""

from pydantic import AliasPath, Field

from gateway.api.schemas import Answer, Usd


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
