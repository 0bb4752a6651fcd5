"""What became of a call, as its tenant may see it."""

from collections.abc import Sequence
from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt

from billing.invoices.invoicing import LineKind
from billing.types import AttemptKind, CallStatus, UsageSource
from gateway.admin.ledger.schemas import Transfer
from gateway.api.schemas import Answer, At, CallUsage, RareUsd, Usd, read_from
from gateway.call.wait import WaitEnd
from routing.types import CapacityClass, Tier


class Generation(Answer):
    """One line of a list of calls."""

    object: Literal["generation"] = "generation"
    id: str = Field(validation_alias="rid")
    organization: str = Field(validation_alias="org")
    project: str
    key: str
    model_requested: str
    model: str
    variant: str
    pool: str
    capacity_class: str
    simulated: bool = Field(
        validation_alias="is_simulated", description="whether a simulated pool served it"
    )
    service_tier: str = Field(validation_alias="tier")
    batch: bool
    status: CallStatus
    finish_reason: str | None
    error_code: str | None
    usage_source: UsageSource = Field(validation_alias="source")
    usage: CallUsage
    rule: str | None
    policy_revision: int | None
    price_version: str
    cost_usd: Usd = Field(validation_alias="amount_nanousd")
    corrections: NonNegativeInt = Field(description="how often a better record took its place")
    created_at: At = Field(validation_alias="admitted_us")
    ended_at: At = Field(validation_alias="ended_us")
    booked_at: At = Field(validation_alias="ingested_us")


class BookedRecord(Answer):
    """A record of a call as it was booked. The next one takes it back, at its own end."""

    n: int = Field(ge=1)
    usage_source: UsageSource = Field(validation_alias="source")
    status: CallStatus
    model: str
    service_tier: str = Field(validation_alias="tier")
    batch: bool
    usage: CallUsage
    price_version: str
    cost_usd: Usd = Field(validation_alias="amount_nanousd")
    ended_at: At = Field(validation_alias="ended_us", description="in this month it counts")
    booked_at: At = Field(validation_alias="ingested_us")


class GenerationTimeline(Answer):
    admitted_at: At = Field(validation_alias="admitted_us")
    first_token_at: At | None = Field(validation_alias="first_token_us")
    ended_at: At = Field(validation_alias="ended_us")
    booked_at: At = Field(validation_alias="ingested_us")


class ChargeParts(Answer):
    input_usd: Usd = Field(validation_alias="input_nanousd")
    cached_input_usd: Usd = Field(validation_alias="cached_input_nanousd")
    output_usd: Usd = Field(validation_alias="output_nanousd")
    request_usd: Usd = Field(validation_alias="request_nanousd")
    cache_write_usd: RareUsd = Field(0, validation_alias="cache_write_nanousd")
    reasoning_usd: RareUsd = Field(0, validation_alias="reasoning_nanousd")
    gpu_ms_usd: RareUsd = Field(0, validation_alias="gpu_ms_nanousd")
    minimum_usd: RareUsd = Field(0, validation_alias="minimum_nanousd")
    audio_input_usd: RareUsd = Field(0, validation_alias="audio_input_nanousd")
    image_input_usd: RareUsd = Field(0, validation_alias="image_input_nanousd")
    audio_output_usd: RareUsd = Field(0, validation_alias="audio_output_nanousd")
    image_output_usd: RareUsd = Field(0, validation_alias="image_output_nanousd")
    units_usd: RareUsd = Field(0, validation_alias="units_nanousd")


class Candidate(Answer):
    """A pool that was weighed: its price, its wait, a reason in words."""

    model_config = read_from("weighed")
    pool: str
    model: str
    variant: str
    capacity_class: CapacityClass
    tier: Tier
    eligible: bool
    wait_s: float
    reason: str = Field(validation_alias="public_reason")
    price_usd: Usd | None = Field(validation_alias="price_nanousd")


class Clause(Answer):
    """A condition of a rule, and its answer."""

    rule: str
    when: str
    holds: bool


class RefusedCall(Answer):
    """Why no pool could take the call, what would have been needed, and when that may be there."""

    kind: str
    message: str
    retry_after_s: float | None
    pool: str | None = Field(
        validation_alias="soonest_pool", description="the one that would have been ready first"
    )


class CallWait(Answer):
    """The last wait of the call for a place at a worker, and what came of its last decision there:
    the pool had a `place`, another pool was `better` than going on waiting, it was `blocked` and
    could not start, or the `deadline` passed. `end` is null where the caller left."""

    pool: str = Field(validation_alias="wait_pool")
    redecisions: NonNegativeInt = Field(description="while it waited")
    end: WaitEnd | None = Field(validation_alias="wait_end")


class CallTimes(Answer):
    """Seconds from the call's admission to its first token."""

    ttft_s: float | None


class CallAttempt(Answer):
    """A try of the call at one place. All of them together are charged once."""

    rid: str
    n: NonNegativeInt = Field(description="its place among the attempts of the call, from 0")
    pool: str
    model: str
    kind: AttemptKind = Field(
        description="the `first` try; after a failure a `retry` of the same model or a"
        " `fallback` to another one; a `hedge` beside a slow one; a `resume` of an answer that"
        " was cut"
    )
    outcome: str = Field(description="`answered`, `moved`, or how it failed")
    started_at: At = Field(validation_alias=AliasPath("started_us"))
    ended_at: At | None = Field(validation_alias=AliasPath("ended_us"))
    started_us: int
    ended_us: int | None
    input: NonNegativeInt
    cached_input: NonNegativeInt
    output: NonNegativeInt


class BilledLine(Answer):
    """A line of an invoice with what it has of a transfer of the call."""

    invoice: str = Field(validation_alias="invoice_id")
    number: str | None = Field(description="a draft has none", examples=["SLU-2026-000001"])
    seq: NonNegativeInt = Field(validation_alias=AliasPath("line", "seq"))
    kind: LineKind = Field(validation_alias=AliasPath("line", "kind"))
    component: str = Field(validation_alias=AliasPath("line", "component"))
    grant: str = Field(validation_alias=AliasPath("line", "grant_id"))
    transfer: str = Field(validation_alias=AliasPath("transfer", "transfer_id"))
    amount_usd: Usd = Field(validation_alias=AliasPath("amount_nanousd"))


class BilledGeneration(Answer):
    """Lines of void invoices are left out; terms of a month are of no single call. `billed_usd` and
    `unbilled_usd` sum to `charged_usd`."""

    object: Literal["billed_generation"] = "billed_generation"
    id: str = Field(validation_alias="rid")
    charged_usd: Usd = Field(
        validation_alias="charged_nanousd", description="less what credit has paid"
    )
    billed_usd: Usd = Field(validation_alias="billed_nanousd", description="what the lines sum to")
    unbilled_usd: Usd = Field(validation_alias="unbilled_nanousd")
    lines: list[BilledLine]


class Explanation(Generation):
    """One call, from its admission to its transfers."""

    timeline: GenerationTimeline
    clauses: Sequence[Clause] = Field(
        validation_alias=AliasPath("decision", "clauses_of_rule"),
        description="of the rule; those of other rules are the operator's",
    )
    candidates: Sequence[Candidate]
    refusal: RefusedCall | None
    wait: CallWait | None = Field(description="null where it never waited for a place")
    predicted: CallTimes
    observed: CallTimes
    attempts: Sequence[CallAttempt]
    charge: ChargeParts
    records: Sequence[BookedRecord] = Field(description="the last one is what this answer says")
    transfers: list[Transfer]
