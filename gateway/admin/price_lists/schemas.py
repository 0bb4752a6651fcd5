"""What providers charge us: drafts, approvals, and what changed against the list before."""

from typing import Annotated, Literal

from pydantic import Field

from gateway.api.fields import Text
from gateway.api.schemas import Answer, At, Body, Usd
from gateway.providers.price_list import RATES_MAX, ListedRate


class PriceListBody(Body):
    from_: At = Field(alias="from", description="it holds from this instant on")
    rates: Annotated[list[ListedRate], Field(min_length=1, max_length=RATES_MAX)]
    comment: Text = ""


class ListedRateAnswer(Answer):
    model: str
    tier: str
    prompt_from_tokens: int
    input_usd_per_mtok: Usd = Field(validation_alias="input_nanousd_per_mtok")
    output_usd_per_mtok: Usd = Field(validation_alias="output_nanousd_per_mtok")
    cached_input_usd_per_mtok: Usd | None = Field(validation_alias="cached_input_nanousd_per_mtok")
    search_unit_usd: Usd | None = Field(validation_alias="search_unit_nanousd")
    image_usd: Usd | None = Field(validation_alias="image_nanousd")
    images: dict[str, Usd] = Field(description="by size, or by size and quality")
    second_usd: Usd | None = Field(validation_alias="second_nanousd")
    character_usd: Usd | None = Field(validation_alias="character_nanousd")


class PriceChangeAnswer(Answer):
    model: str
    tier: str
    prompt_from_tokens: int
    component: str = Field(
        description="a class of tokens, or a unit: `image/1024x1024/high`, `second`"
    )
    per: Literal["mtok", "unit"] = Field(description="what the amounts are for")
    was_usd: Usd | None = Field(validation_alias="was", description="null: there was none")
    is_usd: Usd | None = Field(validation_alias="is_now", description="null: none is left")


class PriceListAnswer(Answer):
    object: Literal["provider_price_list"] = "provider_price_list"
    provider: str
    version: int
    status: Literal["draft", "approved"]
    from_: At = Field(validation_alias="starts_us", serialization_alias="from")
    comment: str
    created_at: At = Field(validation_alias="created_us")
    created_by: str
    approved_at: At | None = Field(validation_alias="approved_us")
    approved_by: str | None
    rates: list[ListedRateAnswer]
    changes: list[PriceChangeAnswer] = Field(
        description="against the approved lists that hold when it begins"
    )
