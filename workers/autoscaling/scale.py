"""Decides how many replicas a pool has: (view, memory, knobs) -> (memory, ScaleDecision).

Owns the rules of going up, going down and backing off. Does not know who carries them out. Guards
law 7: a target is inside the bounds (or zero while quarantined), and 0 to 1 happens on demand
alone, once for one need. The way down has two phases. Replicas are published as leaving, then
refuse work. Only a pool that is then proven idle gives them up. Any demand meanwhile cancels.
"""

from dataclasses import replace
from math import ceil

from workers.autoscaling.drain import begin_drain, continue_drain
from workers.autoscaling.failure import note_failure, quarantine
from workers.autoscaling.types import (
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ScaleDecision,
)

Step = tuple[PoolMemory, ScaleDecision]


def decide(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Step:
    """The next target of one pool. Pure; call it once per observation, in order of `at_ms`."""
    memory = _note_warm(note_failure(view, memory, knobs), view, knobs)
    held = quarantine(view, memory)
    if held is not None:
        return held
    memory = replace(memory, quarantined_until_ms=None)
    bounded = min(max(memory.target, knobs.min_replicas), knobs.max_replicas)
    if bounded != memory.target:
        return _to_bounds(view, memory, knobs, bounded)
    if memory.drain is not None:
        return continue_drain(view, memory, knobs, needed=_needed(view, knobs))
    if memory.target == 0:
        return _while_cold(view, memory, knobs)
    if not view.replicas_in(Phase.WARM):
        return _while_loading(view, memory)
    return _while_warm(view, memory, knobs)


def _needed(view: PoolView, knobs: Knobs) -> int:
    return ceil(view.load / knobs.slots)


def _note_warm(memory: PoolMemory, view: PoolView, knobs: Knobs) -> PoolMemory:
    """Note a warm replica. It ends a start, which is measured, and clears earlier failures."""
    if not view.replicas_in(Phase.WARM):
        loading = memory.loading_since_ms if memory.target > 0 else None
        since = view.at_ms if loading is None and memory.target > 0 else loading
        return replace(memory, loading_since_ms=since)
    cold_start_ms = memory.cold_start_ms
    if memory.start_since_ms is not None:
        measured_ms = view.at_ms - memory.start_since_ms
        cold_start_ms += knobs.cold_start_weight * (measured_ms - cold_start_ms)
    return replace(
        memory,
        cold_start_ms=cold_start_ms,
        start_since_ms=None,
        loading_since_ms=None,
        attempts_since_ms=view.at_ms,
        failures=0,
        failure=None,
    )


def _to_bounds(view: PoolView, memory: PoolMemory, knobs: Knobs, target: int) -> Step:
    """Move the target into its bounds at once. Surplus replicas finish their calls under the
    cluster's grace."""
    memory = replace(_settled(memory, target), start_since_ms=_start(view, memory))
    detail = f"bounds are {knobs.min_replicas} to {knobs.max_replicas}"
    return memory, ScaleDecision(target, Reason.BOUNDS, detail)


def _while_cold(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Step:
    if view.waiting == 0:
        return memory, ScaleDecision(0, Reason.COLD, "nobody waits", _ids(view), _ids(view))
    memory = replace(_settled(memory, 1), start_since_ms=view.at_ms, loading_since_ms=view.at_ms)
    return memory, ScaleDecision(1, Reason.DEMAND, f"{view.waiting} waiting for a cold pool")


def _while_loading(view: PoolView, memory: PoolMemory) -> Step:
    """The decision while replicas load. Loading counts as busy: the target neither rises nor falls
    before the first replica answers."""
    memory = replace(memory, shortage_since_ms=None, excess_since_ms=None)
    loading_ms = view.at_ms - (memory.loading_since_ms or view.at_ms)
    detail = f"loading for {loading_ms / 1000:.1f} s, {view.waiting} waiting"
    return memory, ScaleDecision(memory.target, Reason.STARTING, detail)


def _while_warm(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Step:
    target = min(_needed(view, knobs), knobs.max_replicas)
    if target > memory.target:
        return _on_shortage(view, memory, knobs, target)
    memory = _note_excess(view, replace(memory, shortage_since_ms=None), knobs)
    excess_ms = 0 if memory.excess_since_ms is None else view.at_ms - memory.excess_since_ms
    if memory.excess_since_ms is not None and excess_ms >= knobs.idle_ms:
        return begin_drain(view, memory, max(memory.excess_peak, knobs.min_replicas))
    detail = f"load {view.load} on {memory.target} x {knobs.slots} slots"
    if memory.excess_since_ms is not None:
        detail += f", {memory.excess_peak} needed for {excess_ms / 1000:.1f} s"
    return memory, ScaleDecision(memory.target, Reason.STEADY, detail)


def _on_shortage(view: PoolView, memory: PoolMemory, knobs: Knobs, target: int) -> Step:
    since_ms = view.at_ms if memory.shortage_since_ms is None else memory.shortage_since_ms
    memory = replace(memory, shortage_since_ms=since_ms, excess_since_ms=None)
    detail = f"load {view.load} on {memory.target} x {knobs.slots} slots needs {target}"
    if view.at_ms - since_ms < knobs.up_delay_ms:
        return memory, ScaleDecision(memory.target, Reason.STEADY, detail + ", not for long yet")
    return _settled(memory, target), ScaleDecision(target, Reason.QUEUE_DEPTH, detail)


def _note_excess(view: PoolView, memory: PoolMemory, knobs: Knobs) -> PoolMemory:
    """Keep the window in which fewer replicas would have done, and the largest number that it
    needed."""
    floor = _least(view, memory, knobs)
    if floor >= memory.target:
        return replace(memory, excess_since_ms=None, excess_peak=0)
    if memory.excess_since_ms is None:
        return replace(memory, excess_since_ms=view.at_ms, excess_peak=floor)
    return replace(memory, excess_peak=max(memory.excess_peak, floor))


def _least(view: PoolView, memory: PoolMemory, knobs: Knobs) -> int:
    if view.replicas_in(Phase.STARTING):
        return memory.target
    busy = ceil(view.load / (knobs.slots * knobs.down_utilization))
    window_ms = 0 if memory.excess_since_ms is None else view.at_ms - memory.excess_since_ms
    worked = any(r.idle_ms is not None and r.idle_ms < window_ms for r in view.replicas)
    return max(busy, knobs.min_replicas, 1 if worked else 0)


def _settled(memory: PoolMemory, target: int) -> PoolMemory:
    """The same memory at a new target. Every window of the old target is forgotten."""
    return replace(
        memory,
        target=target,
        shortage_since_ms=None,
        excess_since_ms=None,
        excess_peak=0,
        drain=None,
    )


def _start(view: PoolView, memory: PoolMemory) -> int | None:
    return view.at_ms if memory.target == 0 else memory.start_since_ms


def _ids(view: PoolView) -> frozenset[str]:
    return frozenset(r.id for r in view.replicas)
