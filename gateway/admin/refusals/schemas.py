"""Calls that were refused, as an operator sees them."""

from typing import Literal

from pydantic import Field, PositiveInt

from gateway.api.schemas import Answer, At
from gateway.decisions.refusals import RefusalReason


class RefusalAnswer(Answer):
    """One call, or several of one key that were refused alike in one minute."""

    object: Literal["refusal"] = "refusal"
    id: str = Field(validation_alias="rid", description="of the call, or of the first of several")
    created_at: At = Field(validation_alias="at_us")
    until: At = Field(validation_alias="until_us", description="when the last of them was refused")
    calls: PositiveInt
    organization: str = Field(validation_alias="org")
    project: str
    key: str
    model_requested: str = Field(validation_alias="model")
    service_tier: str = Field(validation_alias="tier")
    rule: str
    policy_revision: int
    is_canary: bool | None
    reason: RefusalReason
    error_code: str
    message: str = Field(description="what would have been needed")
    retry_after_s: float | None = Field(
        description="seconds until such a call may be taken; null where time cures nothing"
    )
