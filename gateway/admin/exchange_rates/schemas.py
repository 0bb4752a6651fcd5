"""Exchange rates as they are put and answered."""

from datetime import date as Day
from typing import Literal

from pydantic import Field

from gateway.api.schemas import Answer, At, Body, Usd
from gateway.fields import Label


class ExchangeRateBody(Body):
    units_per_usd: Usd = Field(
        description="decimal: how much of the currency a USD is", examples=["0.8571"]
    )
    source: Label = Field(description="whose rate it is; documents say so", examples=["ECB"])


class ExchangeRateAnswer(Answer):
    object: Literal["exchange_rate"] = "exchange_rate"
    currency: str = Field(examples=["EUR"])
    date: Day = Field(validation_alias="day")
    units_per_usd: Usd = Field(validation_alias="nano_per_usd", description="decimal")
    source: str = Field(examples=["ECB"])
    set_by: str
    set_at: At = Field(validation_alias="set_us")
