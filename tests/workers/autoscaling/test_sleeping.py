"""The rung between warm and cold: replicas that sleep are woken first, go cold together, and are
counted in the cluster."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.autoscaling.test_laws import knobs, replicas
from tests.workers.autoscaling.test_orders import KNOBS
from workers.autoscaling.demand import Demand, PoolOrder
from workers.autoscaling.generations import Generation, Succession, succeed
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

SLEEPY = replace(KNOBS, sleep_ms=5_000)
SLEEP, COLD = PoolOrder("sleep", 0, to_sleep=True), PoolOrder("cold", 0)


def replica(id: str, phase: Phase, *, running: int = 0) -> ReplicaView:
    return ReplicaView(id, phase, 0, running=running)


def asleep(*ids: str, target: int = 0) -> PoolMemory:
    return PoolMemory(target, 8_000.0, asleep=frozenset(ids), asleep_since_ms=0)


def obey(seen: ReplicaView, decision: ScaleDecision) -> ReplicaView:
    """A replica that does at once what it is told."""
    if seen.phase is Phase.STARTING:
        return seen
    if seen.id in decision.asleep:
        return replica(seen.id, Phase.SLEEPING)
    if seen.id in decision.refusing:
        return seen if seen.phase is Phase.SLEEPING else replace(seen, phase=Phase.DRAINING)
    return replica(seen.id, Phase.WARM)


def play(
    memory: PoolMemory, seen: list[ReplicaView], knobs: Knobs, *, until_ms: int, since_ms: int = 0
) -> tuple[PoolMemory, list[ReplicaView], list[ScaleDecision]]:
    """Looks without callers, in a world that obeys at once."""
    decisions = []
    for at_ms in range(since_ms, until_ms, 200):
        memory, decision = decide(PoolView(at_ms, tuple(seen), 0), memory, knobs)
        seen = [obey(each, decision) for each in seen][: decision.count]
        decisions.append(decision)
    return memory, seen, decisions


def test_idle_pool_goes_warm_asleep_cold() -> None:
    memory = PoolMemory(1, 8_000.0)
    memory, seen, decisions = play(memory, [replica("a", Phase.WARM)], SLEEPY, until_ms=12_000)
    phases = [(decision.count, len(decision.asleep)) for decision in decisions]
    assert [one for one, other in zip(phases, [(9, 9), *phases], strict=False) if one != other] == [
        (1, 0),
        (1, 1),
        (0, 0),
    ]
    slept = [decision for decision in decisions if decision.asleep]
    assert len(slept) * 200 == SLEEPY.sleep_ms
    assert {decision.reason for decision in slept} == {Reason.ASLEEP}
    assert (seen, memory.asleep) == ([], frozenset())


def test_pool_that_says_nothing_of_sleep_goes_cold_as_before() -> None:
    _, seen, decisions = play(
        PoolMemory(1, 8_000.0), [replica("a", Phase.WARM)], KNOBS, until_ms=8_000
    )
    assert not any(decision.asleep for decision in decisions)
    assert seen == []


def test_order_lets_any_pool_sleep_for_as_long_as_a_warm_replica_stays() -> None:
    view = PoolView(0, (replica("a", Phase.WARM),), 0, demand=Demand(order=SLEEP))
    memory, decision = decide(view, PoolMemory(1, 8_000.0), KNOBS)
    assert decision.leaving == {"a"} and not decision.asleep, "no call is cut"
    memory, seen, decisions = play(
        memory, [obey(view.replicas[0], decision)], KNOBS, until_ms=8_000, since_ms=200
    )
    assert len([decision for decision in decisions if decision.asleep]) * 200 == KNOBS.idle_ms
    assert seen == []


def test_order_makes_a_sleeping_pool_cold_and_another_one_wakes_it() -> None:
    seen = (replica("a", Phase.SLEEPING),)
    _, decision = decide(PoolView(1, seen, 0, demand=Demand(order=COLD)), asleep("a"), SLEEPY)
    assert (decision.count, decision.asleep) == (0, frozenset())
    wake = Demand(order=PoolOrder("wake", 1))
    _, decision = decide(PoolView(1, seen, 0, demand=wake), asleep("a"), SLEEPY)
    assert (decision.target, decision.count, decision.asleep) == (1, 1, frozenset())
    again = Demand(order=PoolOrder("more", 0, to_sleep=True))
    _, decision = decide(PoolView(1, seen, 0, demand=again), asleep("a"), SLEEPY)
    assert decision.asleep == {"a"}, "it sleeps already"


@pytest.mark.parametrize(("waiting", "asleep_after"), [(1, 2), (3, 1), (9, 0)])
def test_callers_wake_as_many_as_they_need_and_start_only_what_is_beyond(
    waiting: int, asleep_after: int
) -> None:
    seen = tuple(replica(id, Phase.SLEEPING) for id in "abc")
    view = PoolView(1, seen, waiting)
    _, decision = decide(view, asleep("a", "b", "c"), replace(SLEEPY, max_replicas=5))
    assert len(decision.asleep) == asleep_after
    assert decision.count == max(3, decision.target)
    assert decision.reason is Reason.DEMAND


@given(
    knobs=knobs(),
    target=st.integers(0, 7),
    seen=replicas(),
    sleepers=st.integers(0, 4),
    waiting=st.integers(0, 20),
    order=st.sampled_from([None, SLEEP, COLD, PoolOrder("wake", 2)]),
)
def test_what_sleeps_and_what_works_is_within_the_bounds_together(
    knobs: Knobs,
    target: int,
    seen: tuple[ReplicaView, ...],
    sleepers: int,
    waiting: int,
    order: PoolOrder | None,
) -> None:
    ids = [f"s{number}" for number in range(sleepers)]
    seen = (*seen, *(replica(id, Phase.SLEEPING) for id in ids))
    memory, before = asleep(*ids, target=target), 0
    for at_ms in (0, 100, 800, 900):
        view = PoolView(at_ms, seen, waiting, demand=Demand(order=order))
        memory, decision = decide(view, memory, knobs)
        assert decision.target <= max(knobs.max_replicas, 0)
        assert decision.count <= max(knobs.max_replicas, decision.target)
        assert decision.asleep <= {each.id for each in seen}
        if at_ms and decision.count > before:
            assert not decision.asleep, "one is started while another one sleeps"
        before = decision.count


def test_sleeper_that_is_gone_is_not_replaced() -> None:
    _, decision = decide(PoolView(1, (), 0), asleep("a"), SLEEPY)
    assert decision.count == 0


def test_wake_is_measured_apart_from_a_start() -> None:
    memory = asleep("a")
    view = PoolView(1_000, (replica("a", Phase.SLEEPING),), 1)
    memory, _ = decide(view, memory, SLEEPY)
    view = PoolView(1_300, (replica("a", Phase.WARM),), 1)
    memory, _ = decide(view, memory, SLEEPY)
    assert memory.cold_start_ms == 8_000.0
    assert memory.wake_ms == 300.0


def test_sleepers_of_a_pool_that_cannot_wake_go() -> None:
    memory = replace(asleep("b", target=1), loading_since_ms=0, is_wake=True)
    view = PoolView(10, (replica("b", Phase.SLEEPING),), 1, failure="the weights are away")
    _, decision = decide(view, memory, SLEEPY)
    assert decision.count == 0 and decision.quarantined_until_ms is not None


def test_surplus_of_a_pool_with_sleepers_sleeps_too() -> None:
    """The cluster might stop one that works in place of the one that sleeps."""
    memory = replace(asleep("c", target=2), excess_since_ms=0, excess_peak=1)
    seen = [replica("a", Phase.WARM, running=1), replica("b", Phase.WARM)]
    seen.append(replica("c", Phase.SLEEPING))
    decision = None
    for at_ms in range(20_000, 26_000, 200):
        memory, decision = decide(PoolView(at_ms, tuple(seen), 0), memory, SLEEPY)
        seen = [each if each.running else obey(each, decision) for each in seen]
        assert decision.count == 3
        if decision.asleep == {"b", "c"}:
            break
    assert memory.asleep == {"b", "c"}


def test_replaced_generation_that_sleeps_is_done_and_is_not_woken() -> None:
    old = Generation("old", PoolView(0, (replica("a", Phase.SLEEPING),), 0), asleep("a"))
    new = Generation("new", PoolView(0, (), 0), PoolMemory(0, 8_000.0))
    _, _, decision = succeed(new, [old], Succession("old"), SLEEPY, waiting=0, patience_ms=1_000)
    assert decision.serving == "new" and decision.done == {"old"}
    assert decision.asleep == {"a"}
    assert decision.shown["a"] is Phase.DRAINING


def test_sleeper_that_is_to_work_is_shown_as_one_that_starts() -> None:
    here = Generation("p", PoolView(0, (replica("a", Phase.SLEEPING),), 1), asleep("a"))
    _, _, decision = succeed(here, [], Succession("p"), SLEEPY, waiting=1, patience_ms=1_000)
    assert decision.shown == {"a": Phase.STARTING}
    _, _, decision = succeed(here, [], Succession("p"), SLEEPY, waiting=0, patience_ms=1_000)
    assert decision.shown == {"a": Phase.SLEEPING}
