"""The demand on one pool as it is seen: the terms of its next decision. Pure.

Joins a view and a memory with `demand`, which knows neither. Keeps the window of the load.
"""

from dataclasses import replace
from math import ceil, inf
from typing import Final

from workers.autoscaling.demand import (
    Calls,
    Capacity,
    Load,
    Terms,
    capacity_of,
    count_for_deadlines,
)
from workers.autoscaling.first_tokens import Work, count_for_running, tier_needs
from workers.autoscaling.levels import with_level
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView

SAMPLE_MS: Final = 1_000
"""How far the points of the window of the load are apart."""
PANIC: Final = 2
"""A pool that needs so many times its replicas gets them at once."""


def note_load(view: PoolView, memory: PoolMemory, knobs: Knobs) -> PoolMemory:
    """Keep how many calls had arrived by when, how long calls were open, and how long they needed
    how many replicas. The first two are counts, not gauges: a call that came and ended between two
    looks is in the first one."""
    loads, arrivals = memory.loads, view.demand.begun + view.waiting
    before = loads[-1] if loads else Load(view.at_ms, arrivals, 0)
    now = Load(view.at_ms, arrivals, before.open_ms + view.load * (view.at_ms - before.at_ms))
    recent = tuple(each for each in loads if each.at_ms >= view.at_ms - knobs.panic_ms - SAMPLE_MS)
    if len(recent) > 1 and recent[-1].at_ms - recent[-2].at_ms < SAMPLE_MS:
        recent = recent[:-1]
    level = min(ceil(view.load / _capacity(view, knobs).slots), knobs.max_replicas)
    window_ms = min(knobs.stable_ms, knobs.idle_ms)
    levels = with_level(memory.levels, view.at_ms, level, window_ms)
    return replace(memory, loads=(*recent, now), levels=levels)


def open_mean(view: PoolView, memory: PoolMemory, window_ms: int) -> float:
    """Open calls on average. Over a whole window, so that a moment is not taken for it."""
    first = _first(view, memory, window_ms)
    return 0.0 if first is None else (memory.loads[-1].open_ms - first.open_ms) / window_ms


def arrivals_per_s(view: PoolView, memory: PoolMemory, window_ms: int) -> float:
    first = _first(view, memory, window_ms)
    arrivals = view.demand.begun + view.waiting
    return 0.0 if first is None else max(0, arrivals - first.arrivals) * 1000 / window_ms


def _first(view: PoolView, memory: PoolMemory, window_ms: int) -> Load | None:
    since_ms = view.at_ms - window_ms
    return next((each for each in memory.loads if each.at_ms >= since_ms), None)


def terms_of(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Terms:
    """Every number that says how many replicas are needed now."""
    calls, capacity = _calls(view), _capacity(view, knobs)
    per_call, start_s = capacity.tokens_per_call, memory.start_ms / 1000
    tokens_running = _tokens_running(calls, capacity)
    tokens_waiting = calls.waiting * per_call
    warm, due = len(view.replicas_in(Phase.WARM)), view.demand.due
    work = Work(calls, tokens_running, tokens_waiting)
    times = {"warm": warm, "start_s": start_s}
    tiers = tier_needs(view, work, capacity, knobs, **times)
    most = max(tiers, key=lambda need: need.needed, default=None)
    mean = open_mean(view, memory, knobs.panic_ms)
    for_load = _usual(memory)
    if (panic := ceil(mean / capacity.slots)) >= PANIC * max(1, memory.target):
        for_load = max(for_load, panic)
    return Terms(
        running=calls.in_slots,
        waiting=calls.waiting,
        tokens_running=round(tokens_running),
        tokens_waiting=round(tokens_waiting),
        arrivals_per_s=round(arrivals_per_s(view, memory, knobs.panic_ms), 3),
        open_mean=round(mean, 2),
        tokens_per_call=round(per_call, 1),
        tokens_per_s=round(capacity.tokens_per_s, 1),
        ttft_s=most.ttft_s if most else knobs.ttft_ms / 1000,
        start_s=round(start_s, 3),
        deadline_s=min(each.left_ms for each in due) / 1000 if due else None,
        for_first_token=max(
            count_for_running(work, capacity, knobs, **times), most.needed if most else 0
        ),
        for_deadlines=count_for_deadlines(
            *(due, calls, capacity, tokens_running), warm=warm, start_s=start_s
        ),
        for_load=for_load,
        for_forecast=0 if is_met(view, memory) else expected_replicas(view, knobs),
        keep_s=keep_ms(view, knobs) / 1000,
        forecast=view.demand.forecast,
        tier=most.tier if most else None,
        tiers=tiers,
    )


def least_needed(view: PoolView, memory: PoolMemory, knobs: Knobs) -> int:
    """The replicas that would do, were they warm, with room to spare: what a way down may leave."""
    calls, capacity = _calls(view), _capacity(view, knobs)
    tokens_waiting = calls.waiting * capacity.tokens_per_call
    work = Work(calls, _tokens_running(calls, capacity), tokens_waiting)
    times = {"warm": inf, "start_s": memory.start_ms / 1000}
    tiers = tier_needs(view, work, capacity, knobs, **times)
    for_first_token = max(
        count_for_running(work, capacity, knobs, **times),
        max((need.needed for need in tiers), default=0),
    )
    recent = ceil(open_mean(view, memory, knobs.panic_ms) / capacity.slots)
    return max(for_first_token, _usual(memory), recent, expected_replicas(view, knobs))


def expected_replicas(view: PoolView, knobs: Knobs) -> int:
    """The replicas that the forecast asks for, within the bounds of the pool."""
    forecast = view.demand.forecast
    return 0 if forecast is None else min(forecast.replicas, knobs.max_replicas)


def is_met(view: PoolView, memory: PoolMemory) -> bool:
    """Whether the pool had the replicas of this forecast already: they are started once."""
    forecast = view.demand.forecast
    return forecast is None or forecast.number == memory.forecast


def _usual(memory: PoolMemory) -> int:
    """One is no reason by itself: a pool with calls has one, and one without may be cold."""
    usual = memory.levels.usual
    return usual if usual > 1 else 0


def keep_ms(view: PoolView, knobs: Knobs) -> int:
    """How long the last idle replica stays. One whose calls are expected stays for `idle_ms`."""
    demand_ms = view.demand.keep_ms
    if demand_ms is None or expected_replicas(view, knobs):
        return knobs.idle_ms
    return min(demand_ms, knobs.idle_ms)


def _calls(view: PoolView) -> Calls:
    running = sum(r.running for r in view.replicas)
    queued = sum(r.queued for r in view.replicas)
    rests = [r.tokens_left for r in view.replicas if r.running]
    reports = [tokens for tokens in rests if tokens is not None]
    total = sum(reports) if len(reports) == len(rests) else None
    return Calls(running, view.waiting + queued, total)


def _tokens_running(calls: Calls, capacity: Capacity) -> float:
    """What running calls still need: as a new call, where their replicas do not say."""
    if calls.tokens_running is None:
        return calls.in_slots * capacity.tokens_per_call
    return calls.tokens_running


def _capacity(view: PoolView, knobs: Knobs) -> Capacity:
    warm = [r for r in view.replicas if r.phase is not Phase.STARTING and r.kv_tokens_total]
    kv_tokens = min((r.kv_tokens_total for r in warm), default=0)
    return capacity_of(view.demand.pace, knobs.slots, kv_tokens)
