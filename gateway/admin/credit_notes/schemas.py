"""Credit notes as they are asked for and answered."""

from hashlib import sha256
from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt, PositiveInt

from gateway.api.schemas import Answer, At, Body, Usd, read_from
from gateway.fields import Label


class CreditLineBody(Body):
    """One of `quantity` and `amount_usd`."""

    seq: PositiveInt = Field(strict=True, description="of the line of the invoice")
    quantity: PositiveInt | None = Field(None, strict=True, description="of its units")
    amount_usd: Usd | None = Field(None, description="without tax", examples=["2.50"])


class CreditBody(Body):
    """An amount, or lines, or neither: all that is left."""

    external_id: Label | None = Field(
        None,
        description="a name of yours, under which it is credited once; without one the same amount"
        " or lines with the same reason are",
        examples=["ticket-4711"],
    )
    reason: Label = Field(description="it stands on the document", examples=["outage of 3 May"])
    amount_usd: Usd | None = Field(None, description="with tax", examples=["11.90"])
    lines: list[CreditLineBody] = Field([], max_length=1000)

    @property
    def name(self) -> str:
        """Under which it is credited once, so that a request that is sent again credits nothing
        more."""
        content = self.model_dump_json(exclude={"external_id"})
        return self.external_id or f"content:{sha256(content.encode()).hexdigest()[:32]}"


class CreditNoteLineAnswer(Answer):
    seq: PositiveInt
    line: NonNegativeInt = Field(
        validation_alias="line_seq", description="of the invoice, 0 where it is none in particular"
    )
    quantity: NonNegativeInt = Field(description="0 where it is an amount")
    amount_cents: NonNegativeInt = Field(description="without tax")


class CreditNoteAnswer(Answer):
    """What was taken back of an invoice. Its files are those of `/admin/v1/invoices/{id}`."""

    model_config = read_from("note")
    object: Literal["credit_note"] = Field("credit_note", validation_alias="object")
    id: str = Field(validation_alias=AliasPath("note", "note_id"))
    number: str = Field(validation_alias="number", examples=["SLU-CN-2026-000001"])
    credits: str = Field(
        validation_alias=AliasPath("note", "invoice_id"), description="the id of its invoice"
    )
    invoice_number: str = Field(validation_alias="invoice_number")
    organization: str = Field(validation_alias=AliasPath("note", "org"))
    reason: str
    net_cents: int
    tax_cents: int
    total_cents: int = Field(validation_alias="total_cents")
    total_usd: Usd = Field(validation_alias="total_nanousd")
    created_at: At = Field(validation_alias=AliasPath("note", "created_us"))
    lines: list[CreditNoteLineAnswer] = Field(validation_alias="lines")
