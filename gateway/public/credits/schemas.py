"""What an organization was given, has spent, and may still spend."""

from typing import Literal

from pydantic import Field

from gateway.admin.credits.schemas import CreditGrant
from gateway.api.schemas import Answer, Usd


class CreditTotals(Answer):
    """In USD as numbers, as OpenRouter has them."""

    total_credits: float
    total_usage: float


class Credits(Answer):
    object: Literal["credits"] = "credits"
    organization: str
    data: CreditTotals = Field(validation_alias="totals")
    balance_usd: Usd = Field(
        validation_alias="balance_nanousd", description="decimal USD; below zero for what is owed"
    )
    held_usd: Usd = Field(validation_alias="held_nanousd")
    credit_limit_usd: Usd | None = Field(validation_alias="may_owe_nanousd")
    available_usd: Usd | None = Field(
        validation_alias="available_nanousd",
        description="null where the organization may spend whatever it comes to",
    )
    grants: list[CreditGrant]
