"""Decides how many replicas a pool has: (view, memory, knobs) -> (memory, ScaleDecision).

Owns the rules of going up, going down and backing off. Does not know who carries them out. Guards
law 7: a target is inside the bounds (or zero while quarantined), and 0 to n happens on demand, an
order or a forecast alone, once for one need. The way down has two phases. Replicas are published as
leaving, then refuse work. Only a pool that is then proven idle gives them up. Any demand meanwhile
cancels.
"""

from dataclasses import replace

from workers.autoscaling.demand import Terms
from workers.autoscaling.drain import begin_drain, continue_drain
from workers.autoscaling.failure import note_failure, quarantine
from workers.autoscaling.need import (
    PANIC,
    expected_replicas,
    keep_ms,
    least_needed,
    note_load,
    terms_of,
)
from workers.autoscaling.orders import carry_out
from workers.autoscaling.shares import follow
from workers.autoscaling.sleeping import note_asleep, rest, sleep_ms, without_sleepers
from workers.autoscaling.types import (
    WAKE_GUESS_MS,
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ScaleDecision,
    Step,
)


def decide(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Step:
    """The next target of one pool. Pure; call it once per observation, in order of `at_ms`."""
    memory = note_load(view, memory, knobs)
    terms = terms_of(view, memory, knobs)
    memory = _note_warm(note_failure(view, memory, knobs), view, knobs)
    memory, decision = _decided(view, note_asleep(view, memory, knobs), knobs, terms)
    if 0 < expected_replicas(view, knobs) <= decision.target:
        memory = _with_forecast_met(view, memory)
    return memory, replace(decision, terms=terms, asleep=memory.asleep)


def _decided(view: PoolView, memory: PoolMemory, knobs: Knobs, terms: Terms) -> Step:
    quarantine_decision = quarantine(view, memory)
    if quarantine_decision is not None:
        return quarantine_decision
    memory = replace(memory, quarantined_until_ms=None)
    bounded = min(max(memory.target, knobs.min_replicas), knobs.max_replicas)
    if bounded != memory.target:
        return _to_bounds(view, memory, knobs, bounded)
    if view.demand.share is not None:
        return follow(view, memory, knobs, view.demand.share)
    order = view.demand.order
    if order is not None and order.id != memory.order:
        return carry_out(view, memory, knobs, order)
    needed = min(terms.needed, knobs.max_replicas)
    if memory.drain is not None:
        return continue_drain(view, memory, knobs, needed=needed)
    if memory.target == 0:
        return _while_cold(view, memory, knobs, needed, terms)
    if needed > memory.target and _is_more(view, memory):
        return _on_shortage(view, memory, knobs, needed)
    memory = replace(memory, shortage_since_ms=None)
    if not view.replicas_in(Phase.WARM):
        return _while_loading(view, memory)
    return _while_warm(view, memory, knobs)


def _note_warm(memory: PoolMemory, view: PoolView, knobs: Knobs) -> PoolMemory:
    """Note a warm replica. It ends a start, which is measured, and clears earlier failures."""
    if not view.replicas_in(Phase.WARM):
        is_late = memory.target > 0 and not view.is_fetching  # bytes that come are no hanging start
        loading = memory.loading_since_ms if is_late else None
        since = view.at_ms if loading is None and memory.target > 0 else loading
        return replace(memory, loading_since_ms=since)
    return replace(
        _with_start(view, memory, knobs),
        start_since_ms=None,
        loading_since_ms=None,
        attempts_since_ms=view.at_ms,
        failures=0,
        failure=None,
    )


def _with_start(view: PoolView, memory: PoolMemory, knobs: Knobs) -> PoolMemory:
    """Learn how long the open start took, or the open waking. The first one replaces the guess."""
    if memory.start_since_ms is None:
        return memory
    before_ms = memory.wake_ms if memory.is_wake else memory.cold_start_ms
    guess_ms = WAKE_GUESS_MS if memory.is_wake else knobs.cold_start_guess_ms
    weight = 1.0 if before_ms == guess_ms else knobs.cold_start_weight
    fetch_ms = 0 if memory.is_wake else _fetch_ms(view)
    measured_ms = max(0, view.at_ms - memory.start_since_ms - fetch_ms)
    learned_ms = before_ms + weight * (measured_ms - before_ms)
    if memory.is_wake:
        return replace(memory, wake_ms=learned_ms, is_wake=False)
    return replace(memory, cold_start_ms=learned_ms)


def _fetch_ms(view: PoolView) -> int:
    """How long the checkpoint of the first warm replica took to come. That is no part of a start:
    the next one finds it there, and its bytes are counted where it does not."""
    first = min(view.replicas_in(Phase.WARM), key=lambda replica: replica.since_ms)
    return first.fetch_ms


def _to_bounds(view: PoolView, memory: PoolMemory, knobs: Knobs, target: int) -> Step:
    """Move the target into its bounds at once. Surplus replicas finish their calls under the
    cluster's grace."""
    memory = replace(memory.settled(target), start_since_ms=_start(view, memory))
    detail = f"bounds are {knobs.min_replicas} to {knobs.max_replicas}"
    return memory, ScaleDecision(target, Reason.BOUNDS, detail)


def _with_forecast_met(view: PoolView, memory: PoolMemory) -> PoolMemory:
    forecast = view.demand.forecast
    return memory if forecast is None else replace(memory, forecast=forecast.number)


def _while_cold(
    view: PoolView, memory: PoolMemory, knobs: Knobs, needed: int, terms: Terms
) -> Step:
    if view.waiting == 0 and terms.for_forecast:
        return _started_early(view, memory, terms)
    if view.waiting == 0:
        if (resting := rest(view, memory, knobs)) is not None:
            return resting
        memory = without_sleepers(memory)
        return memory, ScaleDecision(0, Reason.COLD, "nobody waits", _ids(view), _ids(view))
    target, kind = max(needed, 1), "sleeping" if memory.asleep else "cold"
    memory = replace(memory.settled(target), start_since_ms=view.at_ms)
    memory = replace(memory, loading_since_ms=view.at_ms, load_answered=view.load)
    return memory, ScaleDecision(target, Reason.DEMAND, f"{view.waiting} waiting for a {kind} pool")


def _started_early(view: PoolView, memory: PoolMemory, terms: Terms) -> Step:
    assert terms.forecast is not None
    target, expected = terms.for_forecast, terms.forecast
    memory = replace(memory.settled(target), start_since_ms=view.at_ms)
    memory = replace(memory, loading_since_ms=view.at_ms)
    detail = (
        f"calls are expected with probability {expected.probability:.2f}: "
        f"saves {expected.saving_usd:.6f} USD, costs {expected.cost_usd:.6f}"
    )
    return memory, ScaleDecision(target, Reason.FORECAST, detail)


def _while_loading(view: PoolView, memory: PoolMemory) -> Step:
    """The decision while replicas load. Loading counts as busy: the target does not fall before
    the first replica answers."""
    memory = replace(memory, excess_since_ms=None, quiet_since_ms=None)
    loading_ms = view.at_ms - (memory.loading_since_ms or view.at_ms)
    detail = f"loading for {loading_ms / 1000:.1f} s, {view.waiting} waiting"
    return memory, ScaleDecision(memory.target, Reason.STARTING, detail)


def _is_more(view: PoolView, memory: PoolMemory) -> bool:
    """Whether there is more demand than the target was decided for. A replica that still starts is
    capacity that arrives: until it does, the same need does not count again."""
    return view.load > memory.load_answered or not view.replicas_in(Phase.STARTING)


def _on_shortage(view: PoolView, memory: PoolMemory, knobs: Knobs, needed: int) -> Step:
    """Grow at once if twice as many are needed (panic), else after a while."""
    since_ms = view.at_ms if memory.shortage_since_ms is None else memory.shortage_since_ms
    memory = replace(memory, shortage_since_ms=since_ms, excess_since_ms=None, quiet_since_ms=None)
    detail = f"load {view.load} on {memory.target} x {knobs.slots} slots needs {needed}"
    is_panic = needed >= PANIC * memory.target
    if not is_panic and view.at_ms - since_ms < knobs.up_delay_ms:
        return memory, ScaleDecision(memory.target, Reason.STEADY, detail + ", not for long yet")
    memory = replace(memory.settled(needed), load_answered=view.load)
    return memory, ScaleDecision(needed, Reason.QUEUE_DEPTH, detail)


def _while_warm(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Step:
    memory = _note_quiet(view, _note_excess(view, memory, knobs))
    quiet_ms = _since(view, memory.quiet_since_ms)
    excess_ms = _since(view, memory.excess_since_ms)
    is_quiet = knobs.min_replicas == 0 and memory.quiet_since_ms is not None
    if is_quiet and quiet_ms >= keep_ms(view, knobs):
        ends_asleep = knobs.sleep_ms is not None and sleep_ms(view, knobs) > 0
        return begin_drain(view, memory, 0, ends_asleep=ends_asleep)
    if memory.excess_since_ms is not None and excess_ms >= _down_ms(memory, knobs):
        asleep = bool(memory.asleep)  # else the cluster might stop one that works in their place
        return begin_drain(view, memory, memory.excess_peak, ends_asleep=asleep)
    detail = f"load {view.load} on {memory.target} x {knobs.slots} slots"
    if is_quiet:
        detail += f", 0 needed for {quiet_ms / 1000:.1f} s"
    elif memory.excess_since_ms is not None:
        detail += f", {memory.excess_peak} needed for {excess_ms / 1000:.1f} s"
    return memory, ScaleDecision(memory.target, Reason.STEADY, detail)


def _since(view: PoolView, since_ms: int | None) -> int:
    return 0 if since_ms is None else view.at_ms - since_ms


def _down_ms(memory: PoolMemory, knobs: Knobs) -> int:
    """At least two starts, so that what a start costs is not paid again and again."""
    return min(knobs.idle_ms, max(knobs.down_ms, round(2 * memory.cold_start_ms)))


def _note_excess(view: PoolView, memory: PoolMemory, knobs: Knobs) -> PoolMemory:
    """Keep the window in which fewer replicas would have done, and the largest number that it
    needed. One stays in any case: the last one goes by `_note_quiet`."""
    floor = memory.target
    if not view.replicas_in(Phase.STARTING):
        floor = max(1, knobs.min_replicas, least_needed(view, memory, knobs))
    if floor >= memory.target:
        return replace(memory, excess_since_ms=None, excess_peak=0)
    if memory.excess_since_ms is None:
        return replace(memory, excess_since_ms=view.at_ms, excess_peak=floor)
    return replace(memory, excess_peak=max(memory.excess_peak, floor))


def _note_quiet(view: PoolView, memory: PoolMemory) -> PoolMemory:
    """Keep the window in which nothing ran. It begins with the end of the last call."""
    if view.load or view.replicas_in(Phase.STARTING):
        return replace(memory, quiet_since_ms=None)
    if memory.quiet_since_ms is None:
        return replace(memory, quiet_since_ms=view.at_ms)
    ended_ms = [view.at_ms - r.idle_ms for r in view.replicas if r.idle_ms is not None]
    return replace(memory, quiet_since_ms=max([memory.quiet_since_ms, *ended_ms]))


def _start(view: PoolView, memory: PoolMemory) -> int | None:
    return view.at_ms if memory.target == 0 else memory.start_since_ms


def _ids(view: PoolView) -> frozenset[str]:
    return frozenset(r.id for r in view.replicas)
