"""The demand on one pool as it is seen: the terms of its next decision. Pure.

Joins a view and a memory with `demand`, which knows neither. Keeps the window of arrivals.
"""

from dataclasses import replace
from math import ceil
from typing import Final

from workers.autoscaling.demand import (
    Calls,
    Capacity,
    Terms,
    capacity_of,
    count_for_deadlines,
)
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView

SAMPLE_MS: Final = 1_000
"""How far the points of the window of arrivals are apart."""
DOWN_TOLERANCE: Final = 0.9
"""Fewer replicas must do for the arrivals with so much of the room that more would have."""


def note_arrivals(view: PoolView, memory: PoolMemory, knobs: Knobs) -> PoolMemory:
    """Keep how many calls had come by when. A count, not a gauge: a call that came and ended
    between two looks is in it."""
    count = view.demand.begun + view.waiting
    arrivals = memory.arrivals
    if arrivals and view.at_ms - arrivals[-1][0] < SAMPLE_MS:
        return memory
    oldest_ms = view.at_ms - knobs.stable_ms - SAMPLE_MS
    recent = tuple(each for each in arrivals if each[0] >= oldest_ms)
    return replace(memory, arrivals=(*recent, (view.at_ms, count)))


def arrivals_per_s(view: PoolView, memory: PoolMemory, window_ms: int) -> float:
    """Over a whole window, so that the first calls of many are not taken for a rate."""
    since_ms = view.at_ms - window_ms
    first = next((count for at_ms, count in memory.arrivals if at_ms >= since_ms), None)
    count = view.demand.begun + view.waiting
    return 0.0 if first is None else max(0, count - first) * 1000 / window_ms


def terms_of(view: PoolView, memory: PoolMemory, knobs: Knobs) -> Terms:
    """Every number that says how many replicas are needed now."""
    calls, capacity = _calls(view), _capacity(view, knobs)
    per_call = capacity.tokens_per_call
    tokens_running = _tokens_running(calls, capacity)
    start_s = memory.cold_start_ms / 1000
    due = view.demand.due
    recent = arrivals_per_s(view, memory, knobs.panic_ms)
    usual = arrivals_per_s(view, memory, knobs.stable_ms)
    for_recent = capacity.count_for(recent)
    is_panic = for_recent >= 2 * max(1, memory.target)
    tokens = tokens_running + calls.waiting * per_call
    return Terms(
        running=calls.in_slots,
        waiting=calls.waiting,
        tokens_running=round(tokens_running),
        tokens_waiting=round(calls.waiting * per_call),
        arrivals_per_s=round(recent if is_panic else usual, 3),
        tokens_per_call=round(per_call, 1),
        tokens_per_s=round(capacity.tokens_per_s, 1),
        ttft_s=knobs.ttft_ms / 1000,
        start_s=round(start_s, 3),
        deadline_s=min((each.left_ms for each in due), default=0) / 1000 if due else None,
        for_first_token=capacity.count(calls.count, tokens, knobs.ttft_ms / 1000),
        for_deadlines=count_for_deadlines(due, calls, capacity, tokens_running, start_s),
        for_arrivals=for_recent if is_panic else capacity.count_for(usual),
        keep_s=keep_ms(view, knobs) / 1000,
    )


def least_needed(view: PoolView, memory: PoolMemory, knobs: Knobs) -> int:
    """The replicas that would hold the load with room to spare: what a way down may leave."""
    slots = _capacity(view, knobs).slots * knobs.down_utilization
    windows_ms = (knobs.panic_ms, knobs.stable_ms)
    rate = max(arrivals_per_s(view, memory, window_ms) for window_ms in windows_ms)
    for_arrivals = _capacity(view, knobs).count_for(rate / DOWN_TOLERANCE)
    return max(ceil(view.load / slots), for_arrivals)


def keep_ms(view: PoolView, knobs: Knobs) -> int:
    """How long the last idle replica stays."""
    asked_ms = view.demand.keep_ms
    return knobs.idle_ms if asked_ms is None else min(asked_ms, knobs.idle_ms)


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
