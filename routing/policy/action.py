"""What a rule of a policy does with the calls that it matches: narrow, prefer, bound and price.

Owns plain frozen values, in OpenRouter's words where OpenRouter has one. Knows no YAML and no
conditions. Money is in nano-USD, times are in seconds.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from routing.health.after_failure import RETRIES_MAX, RETRY_AFTER_S_MAX

DEFAULT_RULE = "default"
"""The rule of a call that no other rule matches."""


class Sort(StrEnum):
    """What comes first, where an operator wants one measure alone instead of the priced sum."""

    PRICE = "price"
    LATENCY = "latency"
    THROUGHPUT = "throughput"


class TargetKind(StrEnum):
    POOL = "pool"
    PROVIDER = "provider"


class Target(NamedTuple):
    """A pool, or all pools of a provider: `pool:NAME`, `provider:NAME`."""

    kind: TargetKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class OnExceed(StrEnum):
    """What becomes of a pool whose start takes longer than `ColdStart.max_wait_s`: the next
    candidate is taken, or the call is refused where every candidate is too slow to start."""

    FALLBACK = "fallback"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class ColdStart:
    """The longest start that a call waits for. Example: `{max_wait_ms: 1500, on_exceed: refuse}`.

    FALLBACK: a pool that is too slow to start comes behind every other one. REFUSE: it is ruled
    out."""

    max_wait_s: float
    on_exceed: OnExceed = OnExceed.FALLBACK


@dataclass(frozen=True, slots=True)
class PriceBound:
    """The most that a pool may cost us for a million tokens. None is no bound."""

    input_nanousd_per_mtok: int | None = None
    output_nanousd_per_mtok: int | None = None


NO_BOUND = PriceBound()


@dataclass(frozen=True, slots=True)
class LatencyPreference:
    """Expected times to the first token, at quantiles between 0 and 1. A pool that is slower than
    one of them comes behind every pool that is not. Example: `{p95_ttft_ms: 8000}`."""

    ttft_s_by_quantile: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Hedge:
    """When a priority call without a token is sent to another pool beside the first one, and for
    how large a share of calls at most. Example: `{after_ms: 800, share: 0.02}`.

    `after_s` None: when the first pool is slower than 95 in 100 of its calls, and than twice its
    median."""

    after_s: float | None = None
    share: float = 0.03


HEDGE = Hedge()


class Retries(NamedTuple):
    """Bounds of one call. Example: `{max: 2, retry_after_max_ms: 1000}`."""

    most: int = RETRIES_MAX
    """Attempts beyond the first one."""
    retry_after_s_max: float = RETRY_AFTER_S_MAX
    """The longest `retry-after` that is waited out."""


class Timeouts(NamedTuple):
    """Bounds of each attempt; None is as the gateway is set. Example: `{first_token_ms: 3000}`."""

    connect_s: float | None = None
    first_token_s: float | None = None
    idle_s: float | None = None


RETRIES, TIMEOUTS = Retries(), Timeouts()


class Fallbacks(NamedTuple):
    """Other models, in their order. Example: `{general: [other], context_window: [large], budget:
    [small]}`."""

    general: tuple[str, ...] = ()
    """Where no pool of the model that was asked for answers."""
    context_window: tuple[str, ...] = ()
    """Where the call is longer than that model takes."""
    budget: tuple[str, ...] = ()
    """Where what is left of the tenant's money does not cover that model."""


NO_FALLBACKS = Fallbacks()


@dataclass(frozen=True, slots=True)
class Action:
    """What is done with a call. An action without a word weighs every pool by its whole price."""

    only: frozenset[Target] | None = None
    order: tuple[Target, ...] = ()
    """These come first, in this order."""
    ignore: frozenset[Target] = frozenset()
    sort: Sort | None = None
    """None: the lowest sum of our cost and of what waiting, quality and risk are worth."""
    max_price: PriceBound = NO_BOUND
    preferred_max_latency: LatencyPreference | None = None
    allow_fallbacks: bool = True
    """False: the first candidate is the only one."""
    quantizations: frozenset[str] | None = None
    data_collection_allowed: bool = True
    """False: only pools whose operator neither keeps prompts nor trains on them."""
    use_case: str | None = None
    quality_min: float | None = None
    """The least validated quality, from 0 to 1, of the variant for `use_case`."""
    regions: frozenset[str] | None = None
    cold_start: ColdStart | None = None
    hedge: Hedge = HEDGE
    fallbacks: Fallbacks = NO_FALLBACKS
    retries: Retries = RETRIES
    timeouts: Timeouts = TIMEOUTS
    wait_nanousd_per_s: int = 100_000
    """What a second until the first token is worth."""
    quality_nanousd_per_step: int = 200_000
    """What a step of quality, from 0 to 1, is worth for a call."""
    spot_loss_nanousd: int = 1_000_000_000
    """What it costs that a spot replica is lost during a call. How likely that is depends on how
    long the call takes."""

    @property
    def fallback_models(self) -> tuple[str, ...]:
        """All that a call whose money suffices may end on beside the model that it names."""
        if self.fallbacks == NO_FALLBACKS or not self.allow_fallbacks:
            return ()
        return tuple(dict.fromkeys([*self.fallbacks.general, *self.larger_models]))

    @property
    def larger_models(self) -> tuple[str, ...]:
        return self.fallbacks.context_window if self.allow_fallbacks else ()

    @property
    def cheaper_models(self) -> tuple[str, ...]:
        return self.fallbacks.budget if self.allow_fallbacks else ()


class Matched(NamedTuple):
    """What a policy says about a call. `shadow` is decided and recorded as well, and nothing is
    sent to it."""

    rule: str
    policy_revision: int
    action: Action
    shadow: Action | None = None
    is_canary: bool | None = None
    """Whether the canary of the rule takes the call. None where the rule has no canary."""
    is_narrowed: bool = False
    """By the call itself."""
