"""What canary and shadow of a policy chose."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from gateway.api.schemas import Answer, At, Usd
from routing.policy.rules import StickyBy


class CanarySideAnswer(Answer):
    """Calls of one side. `refused`: before or after they were admitted, but by no limit and not for
    money. Price and cost are those of a call on average; null where none was admitted."""

    calls: NonNegativeInt
    answered: NonNegativeInt
    failed: NonNegativeInt
    cancelled: NonNegativeInt
    refused: NonNegativeInt
    ttft_s_p50: float | None
    ttft_s_p95: float | None
    price_usd: Usd | None = Field(validation_alias="price_nanousd")
    cogs_usd: Usd | None = Field(validation_alias="cogs_nanousd")


class CanaryAnswer(Answer):
    rule: str
    share: float = Field(ge=0, le=1, description="of the organizations or keys")
    by: StickyBy
    canary: CanarySideAnswer
    stable: CanarySideAnswer


class PoolOfModel(Answer):
    pool: str
    model: str


class ShadowExampleAnswer(Answer):
    """A call that the shadow would have sent elsewhere, or refused. The differences are what was
    expected there, less what was expected where it was sent."""

    id: str = Field(validation_alias="rid")
    created_at: At = Field(validation_alias="at_us")
    chosen: PoolOfModel
    shadow: PoolOfModel | None
    refusal: str | None
    price_difference_usd: Usd | None = Field(validation_alias="price_nanousd")
    cogs_difference_usd: Usd | None = Field(validation_alias="cogs_nanousd")


class ShadowSummaryAnswer(Answer):
    """Of the newest decisions of a rule. The differences are sums over calls that the shadow would
    have sent elsewhere."""

    rule: str
    decisions: NonNegativeInt
    differ: NonNegativeInt
    refused: NonNegativeInt
    price_difference_usd: Usd = Field(validation_alias="price_nanousd")
    cogs_difference_usd: Usd = Field(validation_alias="cogs_nanousd")
    examples: list[ShadowExampleAnswer]


class PolicyOutcomesAnswer(Answer):
    object: Literal["policy_outcomes"] = "policy_outcomes"
    version: int
    since: At = Field(
        validation_alias="from_us",
        description="calls of canaries are counted since then: the newest 10,000 at most",
    )
    until: At = Field(validation_alias="to_us")
    canaries: list[CanaryAnswer]
    shadows: list[ShadowSummaryAnswer]
