"""The way down: leave, refuse, prove idle, give up or sleep; or cancel.

A call must never be lost between "nobody runs here" and the stop of a replica. So a leaving replica
is published first, and gateways stop choosing it. After `settle_ms` it refuses work. The lower
target is decided only when each leaving replica confirms that it refuses and runs nothing. Where
the pool becomes empty, nobody may be waiting either. Any need for the replicas before that cancels.
"""

from dataclasses import replace

from workers.autoscaling.sleeping import fall_asleep, without_sleepers
from workers.autoscaling.types import (
    Drain,
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ReplicaView,
    ScaleDecision,
    Step,
)


def begin_drain(
    view: PoolView,
    memory: PoolMemory,
    target: int,
    *,
    is_ordered: bool = False,
    ends_asleep: bool = False,
) -> Step:
    """Pick the newest replicas to leave. On one node those are the ones that Ray Serve stops
    first."""
    awake = [replica for replica in view.replicas if replica.id not in memory.asleep]
    newest_first = sorted(awake, key=lambda r: (r.since_ms, r.id), reverse=True)
    victims = frozenset(r.id for r in newest_first[: memory.target - target])
    drain = Drain(victims, target, view.at_ms, is_ordered=is_ordered, ends_asleep=ends_asleep)
    memory = replace(memory, drain=drain, excess_since_ms=None, excess_peak=0)
    return memory, _draining(memory.target, drain, refusing=False, detail="leaving")


def continue_drain(view: PoolView, memory: PoolMemory, knobs: Knobs, *, needed: int) -> Step:
    """Take one more look at a drain under way."""
    drain = memory.drain
    assert drain is not None
    if drain.posted_ms is not None:
        return _after_post(view, memory, knobs, drain, max(needed, 1))
    victims = [r for r in view.replicas if r.id in drain.victims]
    if view.waiting > 0 if drain.is_ordered else needed > drain.target:
        return _cancel(memory, f"load {view.load} arrived on the way down")
    if not victims:
        return _cancel(memory, "the leaving replicas are gone by themselves")
    elapsed_ms = view.at_ms - drain.since_ms
    if elapsed_ms < knobs.settle_ms:
        return memory, _draining(memory.target, drain, refusing=False, detail="leaving")
    if all(_is_done(r) for r in victims):
        if drain.ends_asleep:
            return fall_asleep(view, memory, drain.target, drain.victims)
        if drain.target == 0:
            memory = without_sleepers(memory)
        posted = replace(drain, posted_ms=view.at_ms)
        memory = replace(memory, target=drain.target, drain=posted)
        decision = _draining(drain.target, drain, refusing=True, detail="refused work, ran nothing")
        return memory, replace(decision, reason=Reason.DRAINED)
    if elapsed_ms > knobs.settle_ms + knobs.drain_timeout_ms:
        return _cancel(memory, f"not idle {elapsed_ms / 1000:.1f} s after leaving")
    return memory, _draining(memory.target, drain, refusing=True, detail="refusing work")


def _is_done(replica: ReplicaView) -> bool:
    return replica.phase is Phase.DRAINING and replica.running == 0 and replica.queued == 0


def _after_post(
    view: PoolView, memory: PoolMemory, knobs: Knobs, drain: Drain, needed: int
) -> Step:
    """Keep refusing until the cluster has stopped the replicas. New demand goes to a fresh ones.

    If the cluster stops another replica than the one that left, the survivor takes work again.
    """
    assert drain.posted_ms is not None
    if drain.target == 0 and view.waiting > 0:
        memory = replace(memory.settled(needed), start_since_ms=view.at_ms)
        memory = replace(memory, loading_since_ms=view.at_ms, load_answered=view.load)
        detail = f"{view.waiting} waiting for a pool that just went cold"
        return memory, ScaleDecision(needed, Reason.DEMAND, detail)
    gone = not any(r.id in drain.victims for r in view.replicas)
    if gone or view.at_ms - drain.posted_ms > knobs.settle_ms + knobs.drain_timeout_ms:
        memory = replace(memory, drain=None)
        return memory, ScaleDecision(memory.target, Reason.DRAINED, f"{memory.target} remain")
    return memory, _draining(memory.target, drain, refusing=True, detail="stopping")


def _cancel(memory: PoolMemory, why: str) -> Step:
    memory = replace(memory, drain=None)
    return memory, ScaleDecision(memory.target, Reason.DRAIN_CANCELLED, why)


def _draining(target: int, drain: Drain, *, refusing: bool, detail: str) -> ScaleDecision:
    replicas = drain.victims if refusing else frozenset[str]()
    detail = f"{len(drain.victims)} {detail}"
    return ScaleDecision(target, Reason.DRAINING, detail, drain.victims, replicas)
