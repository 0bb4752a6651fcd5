"""What a month of a model costs us, bought one way or another."""

from typing import Annotated, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from gateway.api.schemas import Answer
from gateway.catalog.model import ModelName
from gateway.fields import YEAR_S
from routing.types import Offer

Tokens = Annotated[float, Field(ge=1, le=1e8)]


class OfferQuery(BaseModel):
    """A traffic, or a time whose calls are one."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    model: ModelName
    since_s: int | None = Field(None, ge=3600, le=YEAR_S, description="the last so many seconds")
    requests_per_day: float | None = Field(None, gt=0, le=1e9)
    input_tokens: Tokens | None = Field(None, description="of a call's prompt")
    output_tokens: Tokens | None = Field(None, description="of its answer")
    peak: float | None = Field(
        None, ge=1, le=1000, description="times the mean that the busiest hour has"
    )


OfferAsked = Annotated[OfferQuery, Query()]


class TrafficAnswer(Answer):
    requests_per_day: float
    input_tokens: float
    output_tokens: float
    peak: float


class OfferAnswer(Answer):
    offer: Offer
    usd_month: float
    pool: str = Field(description="whose replicas were reckoned with, the cheapest of the model's")
    replicas: float = Field(description="that compute on average, or are paid all the time")
    source: str = Field(description="whose price it is")


class BreakEvenAnswer(Answer):
    """From so many requests a day on `to` costs no more than `from`, at the same lengths."""

    cheap: Offer = Field(serialization_alias="from")
    dear: Offer = Field(serialization_alias="to")
    requests_per_day: float


class OffersAnswer(Answer):
    object: Literal["offers"] = "offers"
    model: str
    traffic: TrafficAnswer
    offers: list[OfferAnswer]
    cheapest: Offer
    break_even: list[BreakEvenAnswer]
