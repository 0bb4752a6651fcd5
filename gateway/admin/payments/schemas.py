"""Payments as they are told and answered."""

from typing import Annotated, Literal

from pydantic import AliasPath, Field, NonNegativeInt

from billing.payments.bank_file import CHARS_MAX
from billing.payments.payment import Source
from gateway.api.fields import Text
from gateway.api.schemas import Answer, At, Body, NoneIfEmpty, Usd, read_from
from gateway.fields import Label

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$", examples=["USD"])]


class PayBody(Body):
    amount_usd: Usd | None = Field(
        None,
        description="in whole cents, above zero; null where `amount` says it",
        examples=["118.50"],
    )
    amount: Usd | None = Field(
        None, description="decimal, in `currency`: the one that the invoice shows", examples=[None]
    )
    external_id: Label = Field(
        description="the name its bank or sender gives it; the same is booked once",
        examples=["wire-20261105-17"],
    )
    received_at: At | None = Field(None, description="null is now")
    currency: Currency = "USD"
    note: Annotated[Text, Field(max_length=500)] = ""


class RefundBody(Body):
    amount_usd: Usd | None = Field(None, description="null is all that is on account")
    external_id: Label = Field(
        description="the same is given back once", examples=["refund-20261109-1"]
    )
    reason: Label = Field(examples=["paid twice"])


class ReverseBody(Body):
    reason: Label = Field(examples=["the bank took it back"])


class ImportBody(Body):
    csv: str = Field(
        max_length=CHARS_MAX,
        description="a head with date, amount, text and, if there are any, currency, id and payer",
        examples=["date,amount,currency,text\n2026-11-05,118.50,USD,SLU-2026-000001\n"],
    )


class Tendered(Answer):
    """What came, in its own currency."""

    currency: str = Field(examples=["EUR"])
    amount: Usd = Field(validation_alias="amount_nano", description="decimal, in this currency")


class PaymentAnswer(Answer):
    """What neither an invoice has nor was given back is on account."""

    model_config = read_from("payment")
    object: Literal["payment"] = Field("payment", validation_alias="object")
    id: str = Field(validation_alias=AliasPath("payment", "payment_id"))
    organization: str = Field(validation_alias=AliasPath("payment", "org"))
    invoice: str | None = Field(
        validation_alias=AliasPath("payment", "invoice_id"),
        description="the one that it was sent for",
    )
    external_id: str
    source: Source = Field(description="`credit_note`: no money came, an invoice is below zero")
    currency: str
    amount_usd: Usd = Field(validation_alias="amount_nanousd")
    applied_usd: Usd = Field(validation_alias="applied_nanousd")
    refunded_usd: Usd = Field(validation_alias="refunded_nanousd")
    tendered: Tendered | None = Field(
        validation_alias="tendered", description="null where it came in USD"
    )
    on_account_usd: Usd = Field(validation_alias="on_account_nanousd")
    reversed: bool = Field(validation_alias="is_reversed")
    received_at: At = Field(validation_alias=AliasPath("payment", "received_us"))
    created_at: At = Field(validation_alias=AliasPath("payment", "created_us"))
    note: NoneIfEmpty


class MatchedRowAnswer(Answer):
    row: NonNegativeInt
    number: str = Field(description="of the invoice, or of the receipt of a top-up")
    payment: str = Field(description="the payment, or the top-up")
    amount_usd: Usd = Field(validation_alias="amount_nanousd")
    applied_usd: Usd = Field(validation_alias="applied_nanousd")
    new: bool = Field(validation_alias="is_new", description="false where it was booked before")


class UnmatchedRowAnswer(Answer):
    row: NonNegativeInt
    text: str
    amount: str
    currency: str
    why: str


class ImportAnswer(Answer):
    object: Literal["payment_import"] = "payment_import"
    matched: list[MatchedRowAnswer]
    unmatched: list[UnmatchedRowAnswer]


class SecretBody(Body):
    secret: str = Field(
        min_length=16,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="as the payment service shows it; no answer has it",
        examples=["whsec_0123456789abcdef"],
    )


class SecretAnswer(Answer):
    object: Literal["payment_secret"] = "payment_secret"
    seller: str
    changed_at: At = Field(validation_alias="changed_us")
