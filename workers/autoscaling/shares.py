"""A pool whose mix decides its count: up at once, down as any pool. Pure.

A replica that still starts is given up at once. One that may hold calls leaves first, refuses then,
and goes when it is idle (`drain`). Who waits here is served by another pool of the mix.
"""

from dataclasses import replace

from workers.autoscaling.drain import begin_drain, continue_drain
from workers.autoscaling.sleeping import without_sleepers
from workers.autoscaling.types import (
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ScaleDecision,
    Step,
)


def follow(view: PoolView, memory: PoolMemory, knobs: Knobs, share: int) -> Step:
    if memory.drain is not None:
        return continue_drain(replace(view, waiting=0), memory, knobs, needed=share)
    if share > memory.target:
        return _grown(view, memory, share)
    awake = [each for each in view.replicas if each.id not in memory.asleep]
    there = tuple(each for each in awake if each.phase is not Phase.STARTING)
    if (left := max(share, len(there))) < memory.target:
        return memory.settled(left), ScaleDecision(left, Reason.MIX, f"{share} of its mix")
    if share < memory.target:
        return begin_drain(replace(view, replicas=there), memory, share)
    starting = len(awake) - len(there)
    detail = f"{share} of its mix, {starting} starting"
    gone = frozenset[str]() if share else frozenset(replica.id for replica in view.replicas)
    reason = Reason.STARTING if starting else Reason.MIX
    memory = memory if share else without_sleepers(memory)
    return memory, ScaleDecision(share, reason, detail, gone, gone)


def _grown(view: PoolView, memory: PoolMemory, share: int) -> Step:
    if memory.target == 0:
        memory = replace(memory, start_since_ms=view.at_ms, loading_since_ms=view.at_ms)
    return memory.settled(share), ScaleDecision(share, Reason.MIX, f"{share} of its mix")
