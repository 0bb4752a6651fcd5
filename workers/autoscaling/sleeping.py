"""Replicas that sleep: the rung between warm and cold. Pure.

The last idle replicas of a pool go to sleep where the pool says so, or where it was ordered. They
are woken before any other one is started. They go cold together, when no replica of the pool works:
the cluster decides which replica it stops, and it must not be one with calls.
"""

from dataclasses import replace

from workers.autoscaling.types import Knobs, PoolMemory, PoolView, Reason, ScaleDecision, Step


def note_asleep(view: PoolView, memory: PoolMemory, knobs: Knobs) -> PoolMemory:
    """Forget the sleepers that are gone, and those beyond the pool's bound."""
    here = sorted(memory.asleep & {r.id for r in view.replicas})
    asleep = frozenset(here[: max(0, knobs.max_replicas - memory.target)])
    if asleep == memory.asleep:
        return memory
    return replace(
        memory, asleep=asleep, asleep_since_ms=memory.asleep_since_ms if asleep else None
    )


def fall_asleep(view: PoolView, memory: PoolMemory, target: int, ids: frozenset[str]) -> Step:
    """Let these replicas sleep, which refuse work and have none, and keep `target` others."""
    here = ids & {r.id for r in view.replicas}
    memory = replace(memory.settled(target), asleep=memory.asleep | here)
    memory = replace(memory, asleep_since_ms=view.at_ms)
    return memory, _asleep(view, memory)


def rest(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Step | None:
    """The decision on a pool that has sleepers alone and no callers. None once they go cold."""
    since_ms = view.at_ms if memory.asleep_since_ms is None else memory.asleep_since_ms
    if not memory.asleep or view.at_ms - since_ms >= sleep_ms(view, knobs):
        return None
    return replace(memory, asleep_since_ms=since_ms), _asleep(view, memory)


def without_sleepers(memory: PoolMemory) -> PoolMemory:
    return replace(memory, asleep=frozenset(), asleep_since_ms=None)


def sleep_ms(view: PoolView, knobs: Knobs) -> int:
    """How long idle replicas sleep. Where only an order puts them to sleep, as long as a warm one
    would stay."""
    most_ms = knobs.idle_ms if knobs.sleep_ms is None else knobs.sleep_ms
    demand_ms = view.demand.sleep_ms
    return most_ms if demand_ms is None else min(demand_ms, most_ms)


def _asleep(view: PoolView, memory: PoolMemory) -> ScaleDecision:
    leaving = frozenset(r.id for r in view.replicas) - memory.asleep if memory.target == 0 else ()
    detail = f"{len(memory.asleep)} asleep"
    refusing = memory.asleep | frozenset(leaving)
    return ScaleDecision(memory.target, Reason.ASLEEP, detail, frozenset(leaving), refusing)
