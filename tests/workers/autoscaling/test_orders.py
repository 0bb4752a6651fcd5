"""Orders of an operator: carried out once, within the bounds, and no call is cut."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.autoscaling.test_laws import knobs, replicas
from workers.autoscaling.demand import Demand, PoolOrder
from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, Reason, ReplicaView

KNOBS = Knobs(
    min_replicas=0,
    max_replicas=4,
    slots=2,
    idle_ms=2_000,
    up_delay_ms=500,
    settle_ms=600,
    drain_timeout_ms=3_000,
    start_timeout_ms=10**9,
    start_attempts=3,
    backoff_ms=1_000,
    backoff_max_ms=8_000,
)
SLEEP = PoolOrder("sleep", 0)


def view(
    at_ms: int, *seen: ReplicaView, order: PoolOrder | None = None, waiting: int = 0
) -> PoolView:
    return PoolView(at_ms, seen, waiting, demand=Demand(order=order))


def warm(running: int = 0) -> ReplicaView:
    return ReplicaView("a", Phase.WARM, 0, running=running, idle_ms=0)


@given(
    knobs=knobs(),
    count=st.integers(0, 7),
    seen=replicas(),
    waiting=st.integers(0, 20),
    replicas_least=st.integers(0, 9),
)
def test_any_order_leaves_the_target_in_its_bounds_and_is_carried_out_once(
    knobs: Knobs, count: int, seen: tuple[ReplicaView, ...], waiting: int, replicas_least: int
) -> None:
    order = PoolOrder("o", replicas_least)
    memory = PoolMemory(target=count, cold_start_ms=1_000)
    for at_ms in (0, 1):  # the first look moves a count into its bounds
        memory, decision = decide(view(at_ms, *seen, order=order, waiting=waiting), memory, knobs)
    assert knobs.min_replicas <= decision.target <= knobs.max_replicas
    assert memory.order == "o"
    if replicas_least:
        assert decision.target >= min(replicas_least, knobs.max_replicas)
    _, again = decide(view(2, *seen, order=order, waiting=waiting), memory, knobs)
    assert again.reason is not Reason.ORDER


def test_cold_pool_is_woken_and_goes_cold_again_by_the_usual_rules() -> None:
    memory = PoolMemory(target=0, cold_start_ms=1_000)
    order = PoolOrder("wake", 2)
    memory, decision = decide(view(0, order=order), memory, KNOBS)
    assert (decision.target, decision.reason) == (2, Reason.ORDER)
    starting = ReplicaView("a", Phase.STARTING, 0)
    memory, decision = decide(view(100, starting, order=order), memory, KNOBS)
    assert decision.target == 2
    for at_ms in range(200, 9_000, 200):
        memory, decision = decide(view(at_ms, warm(), replace(warm(), id="b")), memory, KNOBS)
    assert memory.drain is not None


@given(running=st.integers(1, 5), looks=st.integers(1, 12))
def test_sleep_waits_for_calls_in_flight(running: int, looks: int) -> None:
    memory = PoolMemory(target=1, cold_start_ms=1_000)
    busy = view(0, warm(running), order=SLEEP)
    memory, decision = decide(busy, memory, KNOBS)
    assert decision.leaving == {"a"}
    for look in range(1, looks + 1):
        refusing = replace(warm(running), phase=Phase.DRAINING)
        memory, decision = decide(view(look * 250, refusing, order=SLEEP), memory, KNOBS)
        assert decision.target == 1 and decision.leaving == {"a"}
    at_ms = (looks + 3) * 250
    memory, decision = decide(view(at_ms, replace(refusing, running=0)), memory, KNOBS)
    assert decision.target == 0


def test_caller_who_comes_meanwhile_keeps_the_replica() -> None:
    memory, _ = decide(view(0, warm(1), order=SLEEP), PoolMemory(1, 1_000), KNOBS)
    memory, decision = decide(view(100, warm(1), order=SLEEP, waiting=1), memory, KNOBS)
    assert (decision.target, decision.leaving) == (1, frozenset())


def test_start_that_nobody_waits_for_is_given_up() -> None:
    starting = ReplicaView("a", Phase.STARTING, 0)
    _, decision = decide(view(0, starting, order=SLEEP), PoolMemory(1, 1_000), KNOBS)
    assert decision.target == 0


def test_pool_that_may_not_sleep_and_one_with_callers_say_so() -> None:
    keeps = replace(KNOBS, min_replicas=1)
    _, decision = decide(view(0, warm(), order=SLEEP), PoolMemory(1, 1_000), keeps)
    assert decision.target == 1 and "min_replicas" in decision.detail
    _, decision = decide(view(0, warm(), order=SLEEP, waiting=2), PoolMemory(1, 1_000), KNOBS)
    assert decision.target == 1 and "2 are waiting" in decision.detail
