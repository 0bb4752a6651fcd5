"""The questions to the limits and their answers: values only, no Redis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import msgspec

from billing.types import BudgetShare, OpenedCall, UsageCheckpoint, UsageSource

MONEY_MAX_NANOUSD = 2**53
"""The largest amount of one call that Lua's doubles carry exactly: 9.0 million dollars."""


class LimitsUnavailable(Exception):
    """Redis did not answer in time or at all. The request may or may not have had its effect."""


class Silent(LimitsUnavailable):
    """Redis has said nothing for the longest time that it may take, so it counts as away."""


class NotAsked(LimitsUnavailable):
    """Redis has not answered other requests of late, so this one was not sent. Nothing has
    happened."""


class Dimension(StrEnum):
    """The limit that a refusal is about."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    CONCURRENCY = "concurrency"
    BUDGET = "budget"
    CREDIT = "credit"
    TOO_LARGE = "too_large"
    UNPRIMED = "unprimed"


class HoldState(StrEnum):
    HELD = "held"
    ESTIMATED = "estimated"
    SETTLED = "settled"


class SettleState(StrEnum):
    """`live`: the call was not settled, because only an overdue hold was to be, and this one is not
    overdue."""

    SETTLED = "settled"
    ALREADY = "already"
    CORRECTED = "corrected"
    LOST = "lost"
    LIVE = "live"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """None is no limit. A burst of None is one minute's worth of its rate. A rate of 0 admits
    nothing."""

    requests_per_minute: int | None = None
    request_burst: int | None = None
    tokens_per_minute: int | None = None
    token_burst: int | None = None
    input_tokens_per_minute: int | None = None
    input_token_burst: int | None = None
    output_tokens_per_minute: int | None = None
    output_token_burst: int | None = None
    concurrency: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeLimits(CallLimits):
    """The limits of one scope. A scope is an owner (`key:<id>`, `project:<id>`, `org:<id>`), or one
    model or one end user of an owner (`org:<id>/model:<name>`, `org:<id>/user:<digest>`), which is
    narrow.

    `ceiling_nanousd` is the most that may ever be spent, as credits stand when the call is
    admitted; it may be below zero. Of a narrow scope no money is counted, and Redis forgets it once
    it is idle.
    """

    scope: str
    budget_nanousd: int | None = None
    budget_window: Literal["total", "month"] = "total"
    ceiling_nanousd: int | None = None
    is_narrow: bool = False

    def __hash__(self) -> int:
        return hash(self.scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class HardBudget:
    """A hard budget in one of its periods. Its name is the key of what is held and spent.

    `width_us` is 0 for a period, and `lasts_us` is its end (0: never). For a rolling span of
    `lasts_us`, `width_us` is the length of its parts.
    """

    name: str
    amount_nanousd: int
    width_us: int = 0
    lasts_us: int = 0

    def __hash__(self) -> int:
        return hash(self.name)


def purse_name(share: BudgetShare) -> str:
    """The name of a purse, one word. Another period is another purse, so nothing is ever reset."""
    when = "rolling" if share.width_us else str(share.start_us // 1_000_000)
    return f"budget:{share.budget}:{share.subject or '-'}:{when}"


def purse_of(share: BudgetShare, amount_nanousd: int) -> HardBudget:
    return HardBudget(
        name=purse_name(share),
        amount_nanousd=amount_nanousd,
        width_us=share.width_us,
        lasts_us=share.span_us or share.until_us,
    )


class RateState(msgspec.Struct, frozen=True):
    """For the x-ratelimit-* headers: the tightest scope of one dimension."""

    scope: str
    limit: int
    remaining: int
    reset_ms: int


class Admitted(msgspec.Struct, frozen=True):
    """`new` may run. `held` and `settled`: this id was admitted before and must not run again."""

    state: Literal["new", "held", "settled"]
    rates: Mapping[Dimension, RateState] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written. `retry_after_ms` is None where waiting does not help. `rates` has the
    dimensions that did not refuse. `of` is the dimension for which a call is too large: it asks for
    `units`, and `most` fit at once."""

    scope: str
    dimension: Dimension
    retry_after_ms: int | None
    rates: Mapping[Dimension, RateState] = field(default_factory=dict, compare=False)
    of: Dimension | None = field(default=None, compare=False)
    units: int = field(default=0, compare=False)
    most: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Renewed:
    held_nanousd: int


@dataclass(frozen=True, slots=True)
class RenewRefused:
    """The hold got no top-up. The lease was extended and the checkpoint stored."""

    scope: str
    dimension: Dimension
    held_nanousd: int


@dataclass(frozen=True, slots=True)
class Lost:
    """There is no open hold. `settled`: another process settled it (as estimated). Else Redis
    forgot it."""

    settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One hold as Redis has it. An open one has its payloads, a settled one its amount."""

    rid: str
    state: HoldState
    held_nanousd: int = 0
    amount_nanousd: int = 0
    opened: OpenedCall | None = None
    checkpoint: UsageCheckpoint | None = None
    due_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What the ledger has charged to one scope, in all and by UTC month of admission (YYYYMM)."""

    total_nanousd: int
    months: dict[str, int]


@dataclass(frozen=True, slots=True)
class Money:
    held_nanousd: int
    spent: Spent


@dataclass(frozen=True, slots=True)
class PurseSpent:
    """What the ledger has charged to one purse, by parts of its span. A period is one part."""

    purse: HardBudget
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ShardEpoch:
    """`epoch` is `<redis run_id>:<anything>`; None with state `unprimed`."""

    state: Literal["open", "priming", "unprimed"]
    epoch: str | None


@dataclass(frozen=True, slots=True)
class Booked:
    """The record of a request id in SQL: the latest version of its usage event."""

    source: UsageSource
    amount_nanousd: int
