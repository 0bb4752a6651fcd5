"""Statements of account, and the span that is asked for."""

from typing import Literal

from pydantic import AliasPath, BaseModel, Field

from gateway.api.schemas import Answer, At, AtOfQuery, Usd, read_from


class StatementQuery(BaseModel):
    from_us: AtOfQuery | None = Field(None, alias="from", description="null is 30 days before `to`")
    to_us: AtOfQuery | None = Field(None, alias="to", description="exclusive; null is now")


class StatementEntryAnswer(Answer):
    """One document or payment. `number` is that of a document, or the name that the sender of a
    payment gave it."""

    model_config = read_from("movement")
    at: At = Field(validation_alias=AliasPath("movement", "at_us"))
    kind: str = Field(examples=["invoice"])
    id: str
    number: str
    amount_usd: Usd = Field(
        validation_alias="amount_nanousd", description="what it adds to what is owed"
    )
    balance_usd: Usd = Field(validation_alias="balance_nanousd", description="owed after it")


class StatementAnswer(Answer):
    """Opening, invoiced and refunded less credited and paid is closing. Below zero is credit on
    account."""

    object: Literal["statement"] = "statement"
    organization: str = Field(validation_alias="org")
    from_us: At = Field(serialization_alias="from")
    to_us: At = Field(serialization_alias="to")
    currency: Literal["USD"] = "USD"
    opening_usd: Usd = Field(validation_alias="opening_nanousd", description="owed before")
    invoiced_usd: Usd = Field(validation_alias="invoiced_nanousd", description="less void ones")
    credited_usd: Usd = Field(
        validation_alias="credited_nanousd", description="credit notes and write-offs"
    )
    paid_usd: Usd = Field(validation_alias="paid_nanousd")
    refunded_usd: Usd = Field(
        validation_alias="refunded_nanousd", description="what left again of payments"
    )
    closing_usd: Usd = Field(validation_alias="closing_nanousd", description="owed after")
    entries: list[StatementEntryAnswer]
