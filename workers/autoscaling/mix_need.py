"""How many replicas all pools of a mix need together. Pure.

Their calls and replicas are decided on as those of one pool (`scale`), so a mix grows and shrinks
by the same windows. Only the way down differs: each pool gives up what is not needed any more in
its own time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from workers.autoscaling.demand import UNMEASURED, Demand, Due, Pace, Terms
from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView

ENDLESS_MS = 10**12


@dataclass(frozen=True, slots=True)
class MixNeed:
    count: int
    terms: Terms


def decide_need(
    views: Sequence[PoolView], memory: PoolMemory, knobs: Knobs, start_s: float
) -> tuple[PoolMemory, MixNeed]:
    """`views`: of each pool, without the replicas that leave. `knobs`: of all together."""
    view = together(views)
    view = _without_spares(view, memory.target)
    if memory.target == 0 and view.load:
        view = replace(view, waiting=max(1, view.waiting))
    patient = replace(knobs, start_timeout_ms=ENDLESS_MS)
    memory, decision = decide(view, replace(memory, cold_start_ms=start_s * 1000), patient)
    if memory.drain is not None:
        memory = memory.settled(memory.drain.target)
    assert decision.terms is not None
    return memory, MixNeed(memory.target, decision.terms)


def _without_spares(view: PoolView, target: int) -> PoolView:
    """Replicas that start beyond the need, spares and those of a zone that may refuse, are none
    that anybody waits for: a mix that has enough goes down without them."""
    there = [replica for replica in view.replicas if replica.phase is not Phase.STARTING]
    starting = view.replicas_in(Phase.STARTING)[: max(0, target - len(there))]
    return replace(view, replicas=(*there, *starting))


def together(views: Sequence[PoolView]) -> PoolView:
    """Several pools as one."""
    demands = [view.demand for view in views]
    keeps = [demand.keep_ms for demand in demands if demand.keep_ms is not None]
    orders = [demand.order for demand in demands if demand.order is not None]
    forecasts = [demand.forecast for demand in demands if demand.forecast is not None]
    demand = Demand(
        due=_due([demand.due for demand in demands]),
        queues=tuple(queue for demand in demands for queue in demand.queues),
        begun=sum(demand.begun for demand in demands),
        pace=_slowest([demand.pace for demand in demands]),
        keep_ms=max(keeps, default=None),
        forecast=max(forecasts, key=lambda each: each.replicas, default=None),
        order=max(orders, key=lambda order: (len(order.id), order.id), default=None),
    )
    return PoolView(
        at_ms=max(view.at_ms for view in views),
        replicas=tuple(replica for view in views for replica in view.replicas),
        waiting=sum(view.waiting for view in views),
        demand=demand,
    )


def knobs_together(knobs: Sequence[Knobs], base: int) -> Knobs:
    most = sum(each.max_replicas for each in knobs)
    return replace(
        knobs[0],
        min_replicas=min(base, most),
        max_replicas=most,
        slots=min(each.slots for each in knobs),
        idle_ms=max(each.idle_ms for each in knobs),
    )


def _due(queues: Sequence[Sequence[Due]]) -> tuple[Due, ...]:
    """The callers of all queues by deadline. Each queue counts those before, too."""
    steps = [
        (later.left_ms, later.callers - earlier.callers)
        for queue in queues
        for earlier, later in pairwise((Due(0, 0), *queue))
    ]
    due, callers = [], 0
    for left_ms, more in sorted(steps):
        callers += more
        due.append(Due(callers, left_ms))
    return tuple(due)


def _slowest(paces: Sequence[Pace]) -> Pace:
    rates = [pace.tokens_per_s for pace in paces if pace.tokens_per_s is not None]
    calls = [pace.tokens_per_call for pace in paces if pace.tokens_per_call is not None]
    if not rates:
        return UNMEASURED
    return Pace(min(rates), max(calls, default=None))
