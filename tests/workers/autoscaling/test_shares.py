"""A pool follows the share of its mix: up at once, down only when nothing of a caller is lost."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.autoscaling.test_laws import knobs, replicas
from workers.autoscaling.demand import Demand, Due, PoolOrder
from workers.autoscaling.mix_need import decide_need, knobs_together, together
from workers.autoscaling.scale import decide
from workers.autoscaling.types import (
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ReplicaView,
    ScaleDecision,
)

KNOBS = Knobs(
    min_replicas=0,
    max_replicas=4,
    slots=4,
    idle_ms=60_000,
    up_delay_ms=0,
    settle_ms=500,
    drain_timeout_ms=60_000,
    start_timeout_ms=600_000,
    start_attempts=3,
    backoff_ms=1_000,
    backoff_max_ms=60_000,
)
EMPTY = PoolMemory(target=0, cold_start_ms=1_000)


def view(at_ms: int, share: int | None, *seen: ReplicaView, waiting: int = 0) -> PoolView:
    return PoolView(at_ms, seen, waiting, demand=Demand(share=share))


def warm(name: str, *, running: int = 0, since_ms: int = 0) -> ReplicaView:
    return ReplicaView(name, Phase.WARM, since_ms, running=running, idle_ms=0)


@given(knobs(), replicas(), st.integers(0, 5), st.integers(0, 5), st.integers(0, 9))
def test_count_stays_in_bounds_and_working_replicas_are_not_given_up(
    knobs: Knobs, seen: tuple[ReplicaView, ...], share: int, target: int, waiting: int
) -> None:
    share = min(max(share, knobs.min_replicas), knobs.max_replicas)
    target = min(max(target, knobs.min_replicas), knobs.max_replicas)
    before = replace(EMPTY, target=target)
    memory, decision = decide(view(1_000, share, *seen, waiting=waiting), before, knobs)
    assert knobs.min_replicas <= decision.target <= knobs.max_replicas
    assert decision.target == memory.target
    assert decision.target == share or share < decision.target <= target
    starting = sum(replica.phase is Phase.STARTING for replica in seen)
    if decision.target < target:
        assert decision.target >= len(seen) - starting


def test_share_comes_at_once_and_nobody_who_waits_brings_more() -> None:
    memory, decision = decide(view(0, 2, waiting=100), EMPTY, KNOBS)
    assert decision.target == 2 and decision.reason is Reason.MIX
    memory, decision = decide(view(1_000, 0, waiting=100), memory, KNOBS)
    assert decision.target == 0


def test_replica_that_works_leaves_before_it_goes_and_cancels_when_the_share_is_back() -> None:
    memory = replace(EMPTY, target=2)
    busy = (warm("old"), warm("new", running=1, since_ms=5))
    for at_ms, share, leaving in ((0, 1, {"new"}), (1_000, 1, {"new"}), (2_000, 2, set())):
        memory, decision = decide(view(at_ms, share, *busy), memory, KNOBS)
        assert (decision.target, set(decision.leaving)) == (2, leaving)
    memory, decision = decide(view(3_000, 1, *busy), memory, KNOBS)
    idle = (warm("old"), ReplicaView("new", Phase.DRAINING, 5))
    memory, decision = decide(view(4_000, 1, *idle), memory, KNOBS)
    assert decision.target == 1 and decision.reason is Reason.DRAINED


def test_replica_that_works_leaves_although_another_one_starts_in_its_place() -> None:
    """Serve starts one where a node drains. It is not waited for."""
    seen = (warm("old", running=1), ReplicaView("new", Phase.STARTING, 9))
    _, decision = decide(view(0, 0, *seen), replace(EMPTY, target=1), KNOBS)
    assert (decision.target, decision.leaving, decision.refusing) == (1, {"old"}, frozenset())


def test_replicas_that_only_start_are_given_up_at_once() -> None:
    seen = (warm("old"), ReplicaView("new", Phase.STARTING, 9))
    _, decision = decide(view(0, 1, *seen), replace(EMPTY, target=2), KNOBS)
    assert (decision.target, decision.leaving) == (1, frozenset())


def test_pool_without_a_share_goes_down_to_nothing_although_callers_wait_for_it() -> None:
    memory = replace(EMPTY, target=1)
    decision: ScaleDecision | None = None
    for at_ms in range(0, 5_000, 1_000):
        draining = decision is not None and "one" in decision.refusing
        phase = Phase.DRAINING if draining else Phase.WARM
        replica = ReplicaView("one", phase, 0, idle_ms=0)
        memory, decision = decide(view(at_ms, 0, replica, waiting=3), memory, KNOBS)
    assert decision is not None and decision.target == 0


def test_callers_of_all_pools_are_counted_together() -> None:
    waiting = [replace(view(0, None, waiting=3)), replace(view(0, None, waiting=3))]
    shared = knobs_together([KNOBS, KNOBS], base=0)
    assert (shared.min_replicas, shared.max_replicas) == (0, 8)
    memory, need = decide_need(waiting, EMPTY, shared, 1.0)
    assert need.count == 2 and need.terms.waiting == 6
    assert memory.target == 2


def test_base_is_needed_although_nobody_calls() -> None:
    _, need = decide_need([view(0, None)], EMPTY, knobs_together([KNOBS], base=1), 1.0)
    assert need.count == 1


def test_call_that_runs_on_what_stays_anyway_is_a_need() -> None:
    seen = view(0, None, warm("least", running=1))
    _, need = decide_need([seen], EMPTY, KNOBS, 1.0)
    assert need.count == 1


def test_need_falls_at_once_when_its_window_is_over_and_pools_drain_in_their_own_time() -> None:
    memory, counts = replace(EMPTY, target=2), []
    for at_ms in (0, 59_000, 61_000):
        idle = [ReplicaView(name, Phase.WARM, 0, idle_ms=at_ms) for name in "ab"]
        memory, need = decide_need([view(at_ms, None, *idle)], memory, KNOBS, 1.0)
        counts.append(need.count)
    assert counts == [2, 2, 0] and memory.drain is None


def test_spare_that_never_starts_keeps_no_replica_needed() -> None:
    memory, counts = replace(EMPTY, target=1), []
    for at_ms in (0, 59_000, 61_000):
        idle = ReplicaView("a", Phase.WARM, 0, idle_ms=at_ms)
        spare = ReplicaView("b", Phase.STARTING, 0)
        memory, need = decide_need([view(at_ms, None, idle, spare)], memory, KNOBS, 1.0)
        counts.append(need.count)
    assert counts == [1, 1, 0]


def test_order_for_one_pool_is_one_for_the_mix() -> None:
    ordered = replace(view(0, None), demand=Demand(order=PoolOrder("1", 3)))
    _, need = decide_need([ordered, view(0, None)], EMPTY, KNOBS, 1.0)
    assert need.count == 3


@given(
    st.lists(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9_000)), max_size=5), max_size=3)
)
def test_deadlines_of_several_queues_count_every_caller_once(
    steps: list[list[tuple[int, int]]],
) -> None:
    queues, callers = [], []
    for queue in steps:
        total, due = 0, []
        for more, left_ms in sorted(queue, key=lambda step: step[1]):
            total += more
            due.append(Due(total, left_ms))
            callers += [left_ms] * more
        queues.append(PoolView(0, (), 0, demand=Demand(tuple(due))))
    merged = together([*queues, PoolView(0, (), 0)]).demand.due
    assert max((each.callers for each in merged), default=0) == len(callers)
    for each in merged:
        assert each.callers <= sum(left_ms <= each.left_ms for left_ms in callers)
    assert [each.left_ms for each in merged] == sorted(each.left_ms for each in merged)
