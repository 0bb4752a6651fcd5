"""How many replicas the tiers of a pool need for their first tokens. Pure.

Each tier that waits has a target of its own, less what its first caller has waited at a replica
already. The queues of replicas know no tier, so all calls that wait may come before a caller. The
largest count that any tier needs is needed.
"""

from dataclasses import dataclass
from typing import Final

from workers.autoscaling.demand import Calls, Capacity, TierNeed, TierQueue
from workers.autoscaling.types import Knobs, PoolView

ANY_TIER: Final = "default"
"""Of a caller whose tier nobody says, and of the next one."""


@dataclass(frozen=True, slots=True)
class Work:
    """The open calls of a pool, and the tokens that they need."""

    calls: Calls
    tokens_running: float
    tokens_waiting: float


def tier_needs(
    view: PoolView, work: Work, capacity: Capacity, knobs: Knobs, *, warm: float, start_s: float
) -> tuple[TierNeed, ...]:
    """Of each tier with callers, the strictest target first."""
    tokens = work.tokens_running + work.tokens_waiting
    needs = []
    for queue in queues_of(view):
        ttft_ms = knobs.ttft_ms_of(queue.tier)
        left_s = max(0, ttft_ms - queue.waited_ms) / 1000
        count = capacity.count(work.calls.count, tokens, left_s, warm=warm, start_s=start_s)
        waited_s = round(queue.waited_ms / 1000, 3)
        needs.append(TierNeed(queue.tier, queue.callers, waited_s, ttft_ms / 1000, count))
    return tuple(sorted(needs, key=lambda need: (need.ttft_s, need.tier)))


def count_for_running(
    work: Work, capacity: Capacity, knobs: Knobs, *, warm: float, start_s: float
) -> int:
    """The replicas that have begun the next call in time, if nobody waits."""
    within_s = knobs.ttft_ms_of(ANY_TIER) / 1000
    calls, tokens = work.calls.in_slots, work.tokens_running
    return capacity.count(calls, tokens, within_s, warm=warm, start_s=start_s)


def queues_of(view: PoolView) -> tuple[TierQueue, ...]:
    """All callers that wait for the pool or at its replicas, one queue a tier."""
    queues = list(view.demand.queues)
    if view.waiting and not queues:
        queues.append(TierQueue(ANY_TIER, view.waiting))
    for replica in view.replicas:
        if replica.queued:
            queues += replica.queues or (TierQueue(ANY_TIER, replica.queued),)
    return tuple(
        TierQueue(
            tier,
            sum(each.callers for each in queues if each.tier == tier),
            max(each.waited_ms for each in queues if each.tier == tier),
        )
        for tier in sorted({each.tier for each in queues if each.callers})
    )
