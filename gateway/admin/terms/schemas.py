"""Terms of an organization, as they are put and answered whole."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from billing.terms.term import (
    TERMS_MAX,
    AllowanceTerm,
    AmountTerm,
    MinimumTerm,
    PercentTerm,
    PriceStep,
    Term,
    TierMode,
    TierTerm,
)
from gateway.admin.parties.schemas import Rate, Short
from gateway.api.schemas import Answer, Body, NoneIfEmpty, Usd

MONTH = r"^[0-9]{4}-(0[1-9]|1[0-2])$"
UNITS_MAX = 10**15
Units = Annotated[int, Field(strict=True, gt=0, le=UNITS_MAX)]


class TermFields(BaseModel):
    name: Short = Field("", description="what invoices say", examples=["10 % until March"])
    first_month: str = Field(pattern=MONTH, examples=["2026-11"])


class SelectionFields(TermFields):
    model: Short = Field("", description="empty is every model")
    component: Short = Field("", description="empty is every class of tokens", examples=["output"])
    service_tier: Short = Field("", description="empty is every tier")


class AllowanceFields(SelectionFields):
    kind: Literal["allowance"]
    units: Units = Field(description="free in each month")


class TierFields(SelectionFields):
    kind: Literal["tiers"]
    mode: TierMode = TierMode.GRADUATED


class TermBody(Body):
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", examples=["welcome"])
    last_month: str | None = Field(
        None, pattern=MONTH, description="null is no end", examples=["2027-03"]
    )

    def basic(self) -> dict[str, Any]:
        fields = self.model_dump(include={"name", "first_month", *SelectionFields.model_fields})
        return {**fields, "term_id": self.id, "last_month": self.last_month or ""}


class PercentBody(TermFields, TermBody):
    """A share off what no credit has paid."""

    kind: Literal["percent"]
    percent: Rate

    def term(self) -> Term:
        return PercentTerm(rate_ppm=self.percent, **self.basic())


class AmountBody(TermFields, TermBody):
    """An amount off each month."""

    kind: Literal["amount"]
    amount_usd: Usd

    def term(self) -> Term:
        return AmountTerm(amount_nanousd=self.amount_usd, **self.basic())


class MinimumBody(TermFields, TermBody):
    """A month costs this at least. What promotional credit has paid does not count."""

    kind: Literal["minimum"]
    amount_usd: Usd

    def term(self) -> Term:
        return MinimumTerm(amount_nanousd=self.amount_usd, **self.basic())


class AllowanceBody(AllowanceFields, TermBody):
    """So many units are free in each month."""

    def term(self) -> Term:
        return AllowanceTerm(units=self.units, **self.basic())


class PriceStepBody(Body):
    up_to: Units | None = Field(None, description="units of a month; null is without end")
    price_usd_per_million: Usd


class TiersBody(TierFields, TermBody):
    """Prices by the number of units in a month. `graduated`: each unit has the price of its step;
    `volume`: all have the price of the last one's."""

    tiers: list[PriceStepBody] = Field(max_length=TERMS_MAX)

    def term(self) -> Term:
        steps = tuple(PriceStep(each.up_to, each.price_usd_per_million) for each in self.tiers)
        return TierTerm(mode=self.mode, steps=steps, **self.basic())


class TermsOfOrganizationBody(Body):
    terms: list[
        Annotated[
            PercentBody | AmountBody | MinimumBody | AllowanceBody | TiersBody,
            Field(discriminator="kind"),
        ]
    ] = Field(max_length=TERMS_MAX)


class TermAnswer(Answer):
    id: str = Field(validation_alias="term_id")
    last_month: NoneIfEmpty


class PercentAnswer(TermFields, TermAnswer):
    kind: Literal["percent"]
    percent: Rate = Field(validation_alias="rate_ppm")


class AmountAnswer(TermFields, TermAnswer):
    kind: Literal["amount", "minimum"]
    amount_usd: Usd = Field(validation_alias="amount_nanousd")


class AllowanceAnswer(AllowanceFields, TermAnswer):
    pass


class PriceStepAnswer(Answer):
    up_to: int | None
    price_usd_per_million: Usd = Field(validation_alias="nanousd_per_mtok")


class TiersAnswer(TierFields, TermAnswer):
    tiers: list[PriceStepAnswer] = Field(validation_alias="steps")


class TermsOfOrganization(Answer):
    object: Literal["terms"] = "terms"
    organization: str
    terms: list[
        Annotated[
            PercentAnswer | AmountAnswer | AllowanceAnswer | TiersAnswer,
            Field(discriminator="kind"),
        ]
    ]
