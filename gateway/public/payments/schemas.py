"""What a payment service hears."""

from typing import Literal

from pydantic import Field

from gateway.api.schemas import Answer

EVENT = {
    "type": "object",
    "description": "an event as Stripe sends it; other fields are left alone",
    "required": ["type", "data"],
    "properties": {
        "type": {"type": "string", "example": "payment_intent.succeeded"},
        "data": {
            "type": "object",
            "required": ["object"],
            "properties": {"object": {"type": "object"}},
        },
    },
}
"""The signature is of the bytes, so that the body is read as it comes."""


class EventAnswer(Answer):
    received: Literal[True] = True
    payment: str | None = Field(
        validation_alias="payment_id", description="the payment of ours; null where it was none"
    )
    top_up: str | None = Field(
        validation_alias="top_up_id", description="the top-up of ours; null where it was none"
    )
