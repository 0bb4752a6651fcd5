"""How many replicas the demand on a pool needs, in tokens and in time. Pure.

A replica works on `slots` calls at once, and does so many tokens a second. So within the time that
a caller may wait for its first token, a pool has begun all calls if its replicas hold them, or are
done with those before them (Little's law in tokens). Each tier has its own time (`first_tokens`).
A replica that is warm works while another one starts, so a queue that it ends by then needs no
other. The same holds of each deadline in the queue, for replicas that are there by then. And as
many are needed as usually are (`levels`). The largest of these counts is needed, or the count that
is worth starting before its calls (`forecast`). Every number that led to it stands in the terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from workers.autoscaling.forecast import Forecast

GUESS_TOKENS_PER_CALL: Final = 256.0
LEFT_OF_A_RUNNING_CALL: Final = 0.5
"""Of its tokens, on average."""
BUSY_LEAST_S: Final = 10.0
"""A rate is learned from so much computing, not from less."""
FASTER_WEIGHT: Final = 0.2
SLOWER_WEIGHT: Final = 0.02
"""A replica with few calls does fewer tokens a second than it could, so the most counts."""
CALLS_WEIGHT: Final = 0.02
CALLS_WEIGHT_MAX: Final = 0.3


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a full replica of a pool is, and what a call of it takes: prompt, without what was
    cached, and answer. None: not measured yet."""

    tokens_per_s: float | None = None
    tokens_per_call: float | None = None


UNMEASURED = Pace()


@dataclass(frozen=True, slots=True)
class Worked:
    """What replicas did between two looks."""

    calls: int = 0
    tokens: int = 0
    busy_s: float = 0.0


IDLE = Worked()


@dataclass(frozen=True, slots=True)
class Due:
    """So many callers, earliest deadline first, have to begin within `left_ms`."""

    callers: int
    left_ms: int


@dataclass(frozen=True, slots=True)
class TierQueue:
    """So many callers of a service tier wait. `waited_ms`: how long the first of them has waited at
    a replica, which is the least that its time to a first token will be."""

    tier: str
    callers: int
    waited_ms: int = 0


@dataclass(frozen=True, slots=True)
class TierNeed:
    """The replicas that one tier needs for its first tokens. `ttft_s` is its target."""

    tier: str
    waiting: int
    waited_s: float
    ttft_s: float
    needed: int


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """An operator's: to have so many replicas at least, or none. `to_sleep`: those that go keep
    their processes."""

    id: str
    replicas: int
    to_sleep: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """What is known of a pool's calls besides those that wait or run. `queues`: those that wait for
    a replica, by tier, empty where nobody says so. `begun`: calls that replicas
    have begun, counted on for ever. `keep_ms`: how long the last idle replica stays, None for
    `idle_ms`. `sleep_ms`: how long it sleeps then, None for the pool's own time. `share`: what the
    mix of the pool decided, None for a pool outside of one."""

    due: tuple[Due, ...] = ()
    queues: tuple[TierQueue, ...] = ()
    begun: int = 0
    pace: Pace = UNMEASURED
    keep_ms: int | None = None
    sleep_ms: int | None = None
    order: PoolOrder | None = None
    forecast: Forecast | None = None
    share: int | None = None


NO_DEMAND = Demand()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The numbers of a decision. `for_*`: the replicas that each reason alone needs. `tiers`: what
    each tier that waits needs for its first tokens; `tier` needs the most, and `ttft_s` is its
    target. What a forecast asks for is needed once; `forecast` stands here for as long as it
    holds."""

    running: int
    waiting: int
    tokens_running: int
    tokens_waiting: int
    arrivals_per_s: float
    open_mean: float
    tokens_per_call: float
    tokens_per_s: float
    ttft_s: float
    start_s: float
    deadline_s: float | None
    for_first_token: int
    for_deadlines: int
    for_load: int
    for_forecast: int = 0
    keep_s: float
    forecast: Forecast | None = None
    tier: str | None = None
    tiers: tuple[TierNeed, ...] = ()

    @property
    def needed(self) -> int:
        return max(self.for_first_token, self.for_deadlines, self.for_load, self.for_forecast)


class Load(NamedTuple):
    """The load of a pool up to an instant: the calls that had arrived, and how long calls were
    open, all together."""

    at_ms: int
    arrivals: int
    open_ms: int


@dataclass(frozen=True, slots=True)
class Calls:
    """The open calls of a pool: `in_slots` run, the others wait. `tokens_running`: what those that
    run still need, None where their replicas do not say."""

    in_slots: int
    waiting: int
    tokens_running: int | None = None

    @property
    def count(self) -> int:
        return self.in_slots + self.waiting


@dataclass(frozen=True, slots=True)
class Capacity:
    """One replica's. What it does in a second is 0 until it was measured: then only slots count."""

    slots: int
    tokens_per_s: float
    tokens_per_call: float

    def count(
        self, calls: int, tokens: float, within_s: float, *, warm: float, start_s: float
    ) -> int:
        """The replicas that have begun so many calls within the time, once started. `warm` ones
        work from now on. None is needed beyond a slot for each call."""
        each = self._tokens_in_slots + self.tokens_per_s * within_s
        each_warm = each + self.tokens_per_s * start_s
        left = tokens - warm * each_warm
        by_tokens = tokens / each_warm if left <= 0 else warm + left / each
        return _whole(min(by_tokens, calls / self.slots))

    @property
    def _tokens_in_slots(self) -> float:
        return self.slots * self.tokens_per_call * LEFT_OF_A_RUNNING_CALL


def capacity_of(pace: Pace, slots: int, kv_tokens: int) -> Capacity:
    """A replica whose keys and values hold fewer calls than it has slots has as many slots."""
    per_call = pace.tokens_per_call or GUESS_TOKENS_PER_CALL
    if kv_tokens:
        slots = max(1, min(slots, int(kv_tokens / per_call)))
    return Capacity(slots, pace.tokens_per_s or 0.0, per_call)


def count_for_deadlines(
    due: Sequence[Due],
    calls: Calls,
    capacity: Capacity,
    tokens_running: float,
    *,
    warm: int,
    start_s: float,
) -> int:
    """The replicas, started now, that meet the deadlines of the queue. A caller whose deadline is
    before the end of a start is not helped by one."""
    counts = [
        capacity.count(
            calls.in_slots + each.callers,
            tokens_running + each.callers * capacity.tokens_per_call,
            each.left_ms / 1000 - start_s,
            warm=warm,
            start_s=start_s,
        )
        for each in due
        if each.left_ms / 1000 > start_s
    ]
    return max(counts, default=0)


def learned(pace: Pace, worked: Worked) -> Pace:
    """The pace after replicas worked some more. Less than BUSY_LEAST_S says nothing."""
    if worked.busy_s < BUSY_LEAST_S or not worked.tokens:
        return pace
    rate = worked.tokens / worked.busy_s
    pace_before = pace.tokens_per_s or rate
    weight = FASTER_WEIGHT if rate > pace_before else SLOWER_WEIGHT
    per_call = pace.tokens_per_call
    if worked.calls:
        each = worked.tokens / worked.calls
        before = each if per_call is None else per_call
        per_call = before + min(CALLS_WEIGHT * worked.calls, CALLS_WEIGHT_MAX) * (each - before)
    return Pace(pace_before + weight * (rate - pace_before), per_call)


def _whole(replicas: float) -> int:
    """Rounded up, but for what is there by the errors of floats."""
    return ceil(replicas - 1e-9)
