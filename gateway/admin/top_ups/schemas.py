"""Top-ups as they are answered. They are told as payments are."""

from typing import Literal

from pydantic import AliasPath, Field

from billing.payments.payment import Source
from gateway.api.schemas import Answer, At, NoneIfEmpty, Usd, read_from


class TopUpAnswer(Answer):
    """Money that became paid credit. Its id is that of its grant and of its receipt."""

    model_config = read_from("top_up")
    object: Literal["top_up"] = Field("top_up", validation_alias="object")
    id: str = Field(validation_alias=AliasPath("top_up", "top_up_id"))
    organization: str = Field(validation_alias=AliasPath("top_up", "org"))
    receipt: str = Field(validation_alias="number", examples=["SLU-RC-2026-000001"])
    external_id: str
    source: Source
    currency: str
    amount_usd: Usd = Field(validation_alias="amount_nanousd")
    remaining_usd: Usd = Field(
        validation_alias="left_nanousd", description="what no call has used and nobody gave back"
    )
    refunded_usd: Usd = Field(validation_alias="refunded_nanousd")
    received_at: At = Field(validation_alias=AliasPath("top_up", "received_us"))
    created_at: At = Field(validation_alias=AliasPath("top_up", "created_us"))
    note: NoneIfEmpty
