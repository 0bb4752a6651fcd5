"""What an operator orders of a pool: replicas now, replicas that sleep, or none. Pure.

An order is carried out once. It moves a count within its bounds, as demand does, and the same rules
hold from then on: a pool that was woken goes cold after `idle_ms`, and one that sleeps wakes for
the next call. Calls in flight finish.
"""

from dataclasses import replace

from workers.autoscaling.demand import PoolOrder
from workers.autoscaling.drain import begin_drain
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


def carry_out(view: PoolView, memory: PoolMemory, knobs: Knobs, order: PoolOrder) -> Step:
    memory = replace(memory, order=order.id)
    if order.replicas:
        return _woken(view, memory, min(order.replicas, knobs.max_replicas))
    if knobs.min_replicas:
        return memory, _unmoved(memory, f"sleep was ordered, min_replicas keeps {memory.target}")
    if view.waiting:
        return memory, _unmoved(memory, f"sleep was ordered, {view.waiting} are waiting")
    sleep = order.to_sleep
    if any(r.phase is not Phase.STARTING and r.id not in memory.asleep for r in view.replicas):
        return begin_drain(view, memory, 0, is_ordered=True, ends_asleep=sleep)
    memory = memory.settled(0) if sleep else without_sleepers(memory.settled(0))
    return memory, ScaleDecision(0, Reason.ORDER, "sleep was ordered", refusing=memory.asleep)


def _woken(view: PoolView, memory: PoolMemory, least: int) -> Step:
    target = max(least, memory.target)
    if target > memory.target and memory.target == 0:
        memory = replace(memory, start_since_ms=view.at_ms, loading_since_ms=view.at_ms)
    memory = replace(memory.settled(target), load_answered=max(memory.load_answered, view.load))
    return memory, ScaleDecision(target, Reason.ORDER, f"{least} were ordered")


def _unmoved(memory: PoolMemory, detail: str) -> ScaleDecision:
    return ScaleDecision(memory.target, Reason.ORDER, detail)
