"""Sellers, billing profiles and tax rules, as they are put and answered whole."""

import re
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)

from billing.parties.party import BuyerKind
from gateway.api.fields import Text
from gateway.api.schemas import Answer, At, Body, is_ours
from gateway.fields import Label

PPM_PER_PERCENT = 10_000
COUNTRY = r"^[A-Z]{2}$"
CURRENCY = r"^[A-Z]{3}$"
_PERCENT = re.compile(r"[0-9]{1,3}(\.[0-9]{1,4})?")


def _ppm(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and is_ours(info):
        return value
    if not isinstance(value, str) or not _PERCENT.fullmatch(value):
        raise ValueError("a rate is a decimal string in percent, for example 19 or 8.875")
    return int(Decimal(value) * PPM_PER_PERCENT)


def _percent(ppm: int) -> str:
    return f"{(Decimal(ppm) / PPM_PER_PERCENT).normalize():f}"


Rate = Annotated[
    int,
    BeforeValidator(_ppm),
    PlainSerializer(_percent, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["19", "8.875"]}),
]
"""Millionths in the product; percent in JSON, both ways."""
Short = Annotated[Text, Field(max_length=200)]
PostalCode = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 -]{0,15}$")]


class AddressFields(BaseModel):
    lines: list[Label] = Field([], max_length=4, examples=[["1 Main Street"]])
    city: Short = ""
    postal_code: Short = ""
    country: str = Field(pattern=COUNTRY, examples=["DE"])
    region: Short = Field("", description="a part of the country where tax differs")


class PartyFields(BaseModel):
    legal_name: str = Field(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f\x7f]+$")
    vat_id: Short = Field("", examples=["DE136695976"])
    tax_id: Short = ""
    email: Short = ""
    electronic_address: Short = Field("", description="SCHEME:ID", examples=["0204:991-1-2"])


class SellerFields(PartyFields):
    series: str = Field(
        pattern=r"^[A-Z0-9]{1,12}$", description="in front of its numbers", examples=["SLU"]
    )
    iban: Short = ""
    tax_currency: str = Field(
        "",
        pattern=r"^([A-Z]{3})?$",
        description="in which it owes its tax, where that is not USD: its documents show it",
        examples=["EUR"],
    )


class ProfileFields(PartyFields):
    seller: Label = Field(description="who bills it", examples=["main"])
    kind: BuyerKind = BuyerKind.BUSINESS
    currency: str = Field(
        "USD",
        pattern=CURRENCY,
        description="documents show it beside USD, where the seller has no `tax_currency`",
    )
    language: Literal["en", "de"] = "en"
    payment_terms_days: int = Field(30, strict=True, ge=0, le=365)
    buyer_reference: Short = ""
    purchase_order: Short = ""
    exemption: Short = Field("", description="the number of a certificate of exemption")


class TaxRuleFields(BaseModel):
    seller: Short = Field("", description="empty is every seller")
    buyer_country: str = Field("", pattern=r"^([A-Z]{2})?$", description="empty is every country")
    buyer_region: Short = ""
    buyer_city: Short = Field("", description="empty is every city")
    buyer_postal_codes: list[PostalCode] = Field(
        [], max_length=1000, description="what they begin with; none is all", examples=[["802"]]
    )
    jurisdiction: str = Field(
        "",
        pattern=r"^([A-Za-z0-9][A-Za-z0-9 .'-]{0,62})?$",
        description="rules of several jurisdictions add up; empty adds up with none",
        examples=["Denver County"],
    )
    level: Short = Field(
        "",
        description="of its jurisdiction; each place of a region has a rule of each of its levels",
        examples=["county"],
    )
    needs_exemption: bool = Field(
        False, description="it fits while the buyer's certificate of exemption holds"
    )
    buyer_kind: BuyerKind | Literal[""] = ""
    category: Literal["S", "Z", "E", "AE", "G", "O"]
    rate: Rate = 0
    reason_code: Short = Field("", examples=["VATEX-EU-AE"])
    note: Short = Field("", examples=["Reverse charge"])


class AddressBody(AddressFields, Body):
    pass


class SellerBody(SellerFields, Body):
    address: AddressBody


class ProfileBody(ProfileFields, Body):
    address: AddressBody
    exemption_until: At | None = Field(None, description="the certificate holds before it")


class TaxRuleBody(TaxRuleFields, Body):
    from_: At = Field(alias="from", description="it holds from this instant on")
    to: At | None = Field(None, description="null is no end")


class AddressAnswer(AddressFields, Answer):
    pass


class SellerAnswer(SellerFields, Answer):
    object: Literal["seller"] = "seller"
    id: str = Field(validation_alias="seller_id")
    address: AddressAnswer


class ProfileAnswer(ProfileFields, Answer):
    object: Literal["billing_profile"] = "billing_profile"
    organization: str = Field(validation_alias="org")
    address: AddressAnswer
    exemption_until: At | None = Field(validation_alias="exemption_until_us")


class TaxRuleAnswer(TaxRuleFields, Answer):
    object: Literal["tax_rule"] = "tax_rule"
    id: str = Field(validation_alias="rule_id")
    rate: Rate = Field(validation_alias="rate_ppm")
    from_: At = Field(validation_alias="from_us", serialization_alias="from")
    to: At | None = Field(validation_alias="to_us")
