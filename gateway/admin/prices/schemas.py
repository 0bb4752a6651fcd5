"""Versions of the price book: their terms, and what differs between two."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from billing.prices.book import Discount, PriceRate
from billing.prices.tariff import BASIS_POINTS, COMPONENT_PATTERN
from billing.prices.terms import GPU_MS_MAX, PROMPT_MAX
from billing.prices.versions import DISCOUNT
from gateway.api.fields import Text
from gateway.api.schemas import Answer, At, Body, NoneIfEmpty, Usd
from gateway.fields import Label
from gateway.instants import LAST_EPOCH_S

RATES_MAX = 10_000
ComponentName = Annotated[
    str,
    Field(
        pattern=COMPONENT_PATTERN,
        examples=["output"],
        description="what is counted; an image also by its size, as `image/1024x1024`, and by its"
        " quality, as `image/1024x1024/high`",
    ),
]
Status = Literal["draft", "approved", "active"]
From = Annotated[
    float | None,
    Field(strict=True, ge=0, le=LAST_EPOCH_S, description="epoch seconds; null is now"),
]


class RateFields(BaseModel):
    model: Label = Field(examples=["sluice-small"])
    tier: str = Field(pattern="^(priority|default|flex)$", examples=["default"])
    batch: bool = False
    component: ComponentName
    usd_per_mtok: Usd = Field(description="decimal USD per million units", examples=["0.15"])
    prompt_from_tokens: int = Field(
        0, strict=True, ge=0, le=PROMPT_MAX, description="of calls with at least so long a prompt"
    )
    units_max: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=GPU_MS_MAX,
        description="of gpu_ms: held with a call, and charged at most",
    )


class RateBody(RateFields, Body):
    def rate(self) -> PriceRate:
        return PriceRate(
            model=self.model,
            tier=self.tier,
            batch=self.batch,
            component=self.component,
            nanousd_per_mtok=self.usd_per_mtok,
            prompt_from=self.prompt_from_tokens,
            units_max=self.units_max,
        )


class Rate(RateFields, Answer):
    usd_per_mtok: Usd = Field(validation_alias="nanousd_per_mtok")
    prompt_from_tokens: int = Field(ge=0, validation_alias="prompt_from")


class DiscountBody(Body):
    model: Label | None = Field(None, description="null: every model without one of its own")
    basis_points: int = Field(
        strict=True, ge=0, le=BASIS_POINTS, description="of a price; 10000 is all of it"
    )

    def discount(self) -> Discount:
        return Discount(self.model or "", self.basis_points)


class DiscountAnswer(Answer):
    model: NoneIfEmpty
    basis_points: int = Field(ge=0)


class TermsBody(Body):
    """What a version costs: of everybody's, all there is; what it does not price is refused."""

    rates: list[RateBody] = Field([], max_length=RATES_MAX)
    discounts: list[DiscountBody] = Field([], max_length=RATES_MAX)
    note: Text = Field("", max_length=200, examples=["Prices of spring"])

    def price_rates(self) -> list[PriceRate]:
        return [rate.rate() for rate in self.rates]

    def price_discounts(self) -> list[Discount]:
        return [discount.discount() for discount in self.discounts]


class PriceVersionBody(TermsBody):
    """A version for everybody or, as an agreement, for one organization: its own rates, which
    replace everybody's of the same model, tier and batch, and discounts on all others."""

    organization: Label | None = None
    status: Literal["draft", "active"] = Field(
        "active", description="active: approved and put into force at once"
    )
    effective_from_s: From = None


class ActivationBody(Body):
    effective_from_s: From = None


class PriceVersion(Answer):
    object: Literal["price_version"] = "price_version"
    id: str = Field(validation_alias="version_id")
    organization: NoneIfEmpty = Field(validation_alias="org")
    status: Status
    effective_from: At | None = Field(validation_alias="effective_from_us")
    created_at: At = Field(validation_alias="created_us")
    created_by: str
    approved_at: At | None = Field(validation_alias="approved_us")
    approved_by: str | None
    activated_by: str | None
    note: str | None
    rates: list[Rate]
    discounts: list[DiscountAnswer]


class PriceVersionDeleted(Answer):
    object: Literal["price_version.deleted"] = "price_version.deleted"
    id: str
    deleted: Literal[True] = True


class ChangeFields(Answer):
    """One price that two versions do not share; null where a version does not have it."""

    model: NoneIfEmpty
    tier: NoneIfEmpty
    batch: bool
    prompt_from_tokens: int = Field(ge=0, validation_alias="prompt_from")


class RateChange(ChangeFields):
    component: ComponentName
    usd_per_mtok_before: Usd | None = Field(validation_alias="before")
    usd_per_mtok_after: Usd | None = Field(validation_alias="after")
    units_max_before: int | None = Field(ge=0)
    units_max_after: int | None = Field(ge=0)


class DiscountChange(ChangeFields):
    component: Literal[DISCOUNT]  # type: ignore[valid-type]
    basis_points_before: int | None = Field(ge=0, validation_alias="before")
    basis_points_after: int | None = Field(ge=0, validation_alias="after")


class PriceDifference(Answer):
    object: Literal["price_difference"] = "price_difference"
    from_version: str = Field(alias="from")
    to: str
    data: list[RateChange | DiscountChange]
