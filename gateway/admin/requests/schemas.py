"""What became of a call, as its operator sees it: with what it cost us."""

from collections.abc import Sequence

from pydantic import AliasPath, Field, NonNegativeInt

from gateway.api.schemas import Answer, UsageCounts, Usd
from gateway.public.generations.schemas import (
    CallAttempt,
    CallTimes,
    Candidate,
    Clause,
    Explanation,
)


class CostedCandidate(Candidate):
    """With the sum that it was chosen by."""

    reason: str
    cogs_usd: Usd = Field(validation_alias=AliasPath("weighed", "cost_nanousd"))
    score_usd: Usd = Field(validation_alias=AliasPath("weighed", "score_nanousd"))
    sum: str = Field(validation_alias=AliasPath("weighed", "terms"))


class CostedTimes(CallTimes):
    """With what the call costs us."""

    cogs_usd: Usd | None = Field(validation_alias="cogs_nanousd")


class CostedAttempt(CallAttempt):
    """With what a server said that refused it."""

    replica: str
    status: int | None
    detail: str | None
    usage: UsageCounts = Field(description="what it delivered, as its server counts")
    cache_write: NonNegativeInt
    reasoning: NonNegativeInt
    busy_us: NonNegativeInt
    served: bool
    nanousd_per_s: int
    input_nanousd_per_mtok: int
    output_nanousd_per_mtok: int
    cached_input_nanousd_per_mtok: int | None
    nanousd_per_unit: int
    cogs_usd: Usd = Field(validation_alias="cost_nanousd")


class TokensAboveHold(Answer):
    prompt: NonNegativeInt
    completion: NonNegativeInt


class CallCogs(Answer):
    """`wasted_usd` is what attempts cost that served nobody."""

    cogs_usd: Usd = Field(validation_alias="cost_nanousd")
    wasted_usd: Usd = Field(validation_alias="wasted_nanousd")
    margin_usd: Usd = Field(validation_alias="margin_nanousd")
    tokens_above_hold: TokensAboveHold


class ShadowAnswer(Answer):
    """Where the shadow of the rule would have sent the call, or why nowhere. Nothing was sent."""

    pool: str | None
    model: str | None
    refusal: str | None


class CostedExplanation(Explanation):
    is_canary: bool | None = Field(
        description="whether the canary of the rule took the call; null where it has none"
    )
    reason: str | None = Field(description="why the call went there, in words")
    shadow: ShadowAnswer | None = Field(validation_alias=AliasPath("decision", "shadow"))
    seed: int | None = Field(
        validation_alias=AliasPath("decision", "seed"),
        description="by which ties between equal pools fell; null where its record is gone",
    )
    clauses: Sequence[Clause] = Field(
        validation_alias=AliasPath("decision", "clauses"),
        description="of every rule that was asked, in order",
    )
    predicted: CostedTimes
    observed: CostedTimes
    candidates: Sequence[CostedCandidate]
    attempts: Sequence[CostedAttempt]
    cogs: CallCogs
