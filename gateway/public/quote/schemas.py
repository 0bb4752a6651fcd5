"""What a call would cost and where it would go."""

from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt

from gateway.api.schemas import Answer, Usd
from gateway.public.generations.schemas import Candidate
from routing.types import Tier


class QuotedModel(Answer):
    model: str
    prompt_tokens: NonNegativeInt = Field(
        description="an estimate where the call would not end on this model"
    )
    prompt_usd: Usd = Field(
        validation_alias="prompt_nanousd", description="where none of the prompt is cached"
    )
    request_usd: Usd = Field(validation_alias="request_nanousd")
    max_usd: Usd = Field(validation_alias="max_nanousd", description="the most it may cost")


class QuotedError(Answer):
    """What the call would be refused with."""

    message: str
    type: str
    param: str | None
    code: str | None
    status: int


class QuoteAnswer(Answer):
    object: Literal["quote"] = "quote"
    url: str
    model: str = Field(validation_alias=AliasPath("call", "model_requested"))
    service_tier: Tier = Field(validation_alias=AliasPath("call", "tier"))
    price_version: str = Field(validation_alias=AliasPath("prices", "version_id"))
    output_tokens_max: NonNegativeInt = Field(
        validation_alias=AliasPath("call", "output_tokens_max")
    )
    models: list[QuotedModel]
    hold_usd: Usd = Field(validation_alias=AliasPath("outcome", "hold_nanousd"))
    rule: str | None = Field(validation_alias=AliasPath("outcome", "rule"))
    policy_revision: int | None = Field(validation_alias=AliasPath("outcome", "policy_revision"))
    candidates: list[Candidate] = Field(validation_alias=AliasPath("outcome", "candidates"))
    error: QuotedError | None = Field(validation_alias=AliasPath("outcome", "error"))
