"""The words of scaling: what is seen of a pool, what is remembered, what is decided.

A replica that sleeps holds no model and takes no call. It counts in the cluster and not in a
target: `ScaleDecision.count` is both together. All values are frozen and hold plain numbers. Times
are milliseconds of the clock that the caller passes in. Nothing here knows Ray, Redis or HTTP.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from workers.autoscaling.demand import NO_DEMAND, Demand, Load, Terms, TierQueue
from workers.autoscaling.levels import NO_LEVELS, Levels

WAKE_GUESS_MS: Final = 500.0
"""Of a pool that was never woken."""


class Phase(StrEnum):
    """The state of a replica. DRAINING means that the replica itself refuses new work. SLEEPING:
    its model is away."""

    STARTING = "STARTING"
    SLEEPING = "SLEEPING"
    WARM = "WARM"
    DRAINING = "DRAINING"


class Reason(StrEnum):
    """The reason for a target. The detail beside it holds the numbers."""

    COLD = "cold"
    STEADY = "steady"
    STARTING = "starting"
    DEMAND = "demand"
    FORECAST = "forecast"
    QUEUE_DEPTH = "queue_depth"
    BOUNDS = "bounds"
    DRAINING = "draining"
    DRAIN_CANCELLED = "drain_cancelled"
    DRAINED = "drained"
    ASLEEP = "asleep"
    ORDER = "order"
    MIX = "mix"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class Knobs:
    """One pool's bounds and patience. `slots` is the number of calls that one replica works on at
    once."""

    min_replicas: int
    max_replicas: int
    slots: int
    idle_ms: int
    up_delay_ms: int
    settle_ms: int  # from published DRAINING to refusing work: at least two gateway polls
    drain_timeout_ms: int
    start_timeout_ms: int
    start_attempts: int  # so many replicas dead before one answered is a failed start
    backoff_ms: int
    backoff_max_ms: int
    cold_start_weight: float = 0.3
    cold_start_guess_ms: float | None = None  # what nobody measured: the first start replaces it
    ttft_ms: int = 0  # a caller's first token is to come within this time of a full pool,
    tier_ttft_ms: tuple[tuple[str, int], ...] = ()  # and that of a caller of this tier within this
    panic_ms: int = 10_000  # the window whose mean load may at least double a pool at once,
    stable_ms: int = 3_600_000  # and the one whose usual load it holds; at most `idle_ms`
    down_ms: int = 10**9  # how long fewer replicas must have done; at most `idle_ms`
    sleep_ms: int | None = None  # how long an idle replica sleeps; None: only where it is ordered

    def ttft_ms_of(self, tier: str) -> int:
        return dict(self.tier_ttft_ms).get(tier, self.ttft_ms)


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica at an instant. `idle_ms`: since its last work, None when it never answered.
    `tokens_left`: what its running calls still need, None where it does not say. `fetch_ms`: how
    long its checkpoint took to come. `queues`: those that are queued, by tier."""

    id: str
    phase: Phase
    since_ms: int
    running: int = 0
    queued: int = 0
    idle_ms: int | None = None
    tokens_left: int | None = None
    kv_tokens_total: int = 0
    fetch_ms: int = 0
    queues: tuple[TierQueue, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolView:
    """One pool at an instant. `failure`: why it cannot start at all, None while it can.
    `deaths_ms`: when the replicas that died lately had been started. `error`: the last words of the
    last one. `is_fetching`: bytes of a checkpoint arrive for a replica that starts."""

    at_ms: int
    replicas: tuple[ReplicaView, ...]
    waiting: int
    failure: str | None = None
    deaths_ms: tuple[int, ...] = ()
    error: str = ""
    demand: Demand = NO_DEMAND
    is_fetching: bool = False

    @property
    def load(self) -> int:
        return self.waiting + sum(r.running + r.queued for r in self.replicas)

    def replicas_in(self, phase: Phase) -> tuple[ReplicaView, ...]:
        return tuple(r for r in self.replicas if r.phase is phase)


@dataclass(frozen=True, slots=True)
class Drain:
    """A way down under way: these replicas leave, then `target` remain."""

    victims: frozenset[str]
    target: int
    since_ms: int
    posted_ms: int | None = None  # decided for good; cancellable until then
    is_ordered: bool = False  # calls that run do not cancel it, those that wait do
    ends_asleep: bool = False


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """The memory from one decision to the next. `target` is the count intended so far, without the
    replicas that are to sleep."""

    target: int
    cold_start_ms: float
    wake_ms: float = WAKE_GUESS_MS
    asleep: frozenset[str] = frozenset()
    asleep_since_ms: int | None = None
    is_wake: bool = False  # the open 0 -> 1 wakes a replica
    start_since_ms: int | None = None  # the open 0 -> 1, for the measured cold start
    loading_since_ms: int | None = None  # no replica is warm since then although some are wanted
    attempts_since_ms: int = 0  # replicas started before this do not count as failed attempts
    shortage_since_ms: int | None = None
    excess_since_ms: int | None = None
    excess_peak: int = 0  # most replicas needed within the window of excess
    quiet_since_ms: int | None = None  # nothing ran and nobody waited since then
    load_answered: int = 0  # the calls that the last higher target was decided for
    loads: tuple[Load, ...] = ()  # over the window of panic
    levels: Levels = NO_LEVELS
    drain: Drain | None = None
    failures: int = 0
    quarantined_until_ms: int | None = None
    failure: str | None = None
    order: str | None = None  # the last one that was carried out
    forecast: int | None = None  # the last minutes for which enough replicas were there

    @property
    def start_ms(self) -> float:
        """How long the next replica takes to come."""
        return self.wake_ms if self.asleep else self.cold_start_ms

    def settled(self, target: int) -> "PoolMemory":
        """The same memory at a new target. Every window of the old target is forgotten. What is
        to come is woken before another one is started."""
        woken = sorted(self.asleep)[: max(0, target - self.target)]
        asleep = self.asleep.difference(woken)
        return replace(
            self,
            target=target,
            asleep=asleep,
            asleep_since_ms=self.asleep_since_ms if asleep else None,
            is_wake=bool(woken) if self.target == 0 else self.is_wake,
            shortage_since_ms=None,
            excess_since_ms=None,
            excess_peak=0,
            quiet_since_ms=None,
            drain=None,
        )


@dataclass(frozen=True, slots=True)
class ScaleDecision:
    """The absolute target with its reason. `leaving` replicas are shown as DRAINING to gateways and
    get no new calls. `refusing` replicas are told to refuse work, those `asleep` to let go of their
    model as well. Every other replica is told to take work."""

    target: int
    reason: Reason
    detail: str
    leaving: frozenset[str] = frozenset()
    refusing: frozenset[str] = frozenset()
    quarantined_until_ms: int | None = None
    terms: Terms | None = None
    asleep: frozenset[str] = frozenset()

    @property
    def count(self) -> int:
        """The replicas that the cluster is to have."""
        return self.target + len(self.asleep)


Step = tuple[PoolMemory, ScaleDecision]
