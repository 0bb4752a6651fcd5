"""Grants of credit, and below which amounts of it an organization's operator wants to be told."""

from typing import Annotated, Literal

from pydantic import AfterValidator, AliasPath, BaseModel, Field, NonNegativeInt

from billing.credits.credit import PRIORITY, PRIORITY_MAX, Category, GrantStatus
from billing.credits.watch import Threshold, ThresholdUnit
from gateway.api.fields import Text
from gateway.api.schemas import Answer, At, Body, Page, Usd, read_from
from gateway.fields import Label

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
THRESHOLDS_MAX = 20
"""Of each unit."""


def _above_zero(nanousd: int) -> int:
    if nanousd <= 0:
        raise ValueError("an amount is above zero")
    return nanousd


UsdAboveZero = Annotated[Usd, AfterValidator(_above_zero)]


class GrantFields(BaseModel):
    id: str | None = Field(None, pattern=ID_PATTERN, examples=["topup-1"])
    organization: Label = Field(examples=["org_default"])
    category: Category
    amount_usd: Usd
    priority: int = Field(
        PRIORITY, strict=True, ge=0, le=PRIORITY_MAX, description="lower ones pay first"
    )
    effective_at: At | None = Field(None, description="null is now")
    expires_at: At | None = Field(None, description="null is never")
    models: list[Label] = Field([], max_length=100, description="none is every model")
    note: Text = Field("", max_length=200)


class GrantBody(GrantFields, Body):
    """Under an `id` of the caller's choice it is given once, however often it is asked for."""

    amount_usd: UsdAboveZero = Field(description="decimal USD, above zero", examples=["25"])


class CreditGrant(GrantFields, Answer):
    model_config = read_from("grant")
    object: Literal["credit_grant"] = "credit_grant"
    id: str = Field(validation_alias=AliasPath("grant", "grant_id"))
    organization: str = Field(validation_alias=AliasPath("grant", "org"))
    status: GrantStatus = Field(validation_alias="status")
    amount_usd: Usd = Field(validation_alias=AliasPath("grant", "amount_nanousd"))
    remaining_usd: Usd = Field(validation_alias="left_nanousd")
    effective_at: At = Field(validation_alias=AliasPath("grant", "effective_us"))
    expires_at: At | None = Field(validation_alias=AliasPath("grant", "expires_us"))
    voided_at: At | None = Field(validation_alias=AliasPath("grant", "voided_us"))
    created_at: At = Field(validation_alias=AliasPath("grant", "created_us"))
    note: str = Field(validation_alias="note")


class CreditGrants(Page[CreditGrant]):
    last_id: str | None


class CreditAlertsBody(Body):
    """All of them: what is left out is not told of any more."""

    below_usd: list[UsdAboveZero] = Field(
        [], max_length=THRESHOLDS_MAX, description="decimal USD, above zero", examples=[["5"]]
    )
    below_percent: list[Annotated[int, Field(strict=True, ge=1, le=100)]] = Field(
        [],
        max_length=THRESHOLDS_MAX,
        description="of what there was when credit last came",
        examples=[[50]],
    )

    def thresholds(self) -> frozenset[Threshold]:
        amounts = (Threshold(ThresholdUnit.NANOUSD, nanousd) for nanousd in self.below_usd)
        percents = (Threshold(ThresholdUnit.PERCENT, percent) for percent in self.below_percent)
        return frozenset((*amounts, *percents))


class CreditThresholds(Answer):
    below_usd: list[Usd] = Field(validation_alias="below_nanousd")
    below_percent: list[NonNegativeInt]


class CreditAlerts(CreditThresholds):
    object: Literal["credit_alerts"] = "credit_alerts"
    organization: str = Field(validation_alias="org")
    granted_usd: Usd = Field(validation_alias="granted_nanousd")
    remaining_usd: Usd = Field(validation_alias="left_nanousd")
    told: CreditThresholds


class CreditAlert(Answer):
    """One line of the list of alerts."""

    object: Literal["credit.alert"] = "credit.alert"
    organization: str = Field(validation_alias="org")
    percent: NonNegativeInt | None
    limit_usd: Usd = Field(validation_alias="limit_nanousd")
    remaining_usd: Usd = Field(validation_alias="left_nanousd")
    granted_usd: Usd = Field(validation_alias="granted_nanousd")
    raised_at: At = Field(validation_alias="raised_us")
