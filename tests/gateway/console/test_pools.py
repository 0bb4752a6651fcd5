"""Each pool says what its replicas are, why, and what they cost."""

from __future__ import annotations

from typing import Any

from gateway.console.pages.overview.pools import FleetView, Intent, PoolView, fleet_view
from gateway.upstream.fault import Fault
from gateway.upstream.faults import LastFault
from routing.types import CapacityClass, FleetSnapshot, PoolState, ReplicaState
from tests.routing.fleets import MODELS, NOW_S, external, pool, replica
from workers.autoscaling.demand import Terms


def seen(*states: PoolState, age_s: float = 0.1, **reasons: str) -> FleetView:
    intents = {name.replace("_", "-"): Intent(1, reason) for name, reason in reasons.items()}
    return fleet_view(FleetSnapshot(NOW_S, MODELS, states), intents, {}, age_s=age_s)


def one(*replicas: Any, waiting: int = 0, blocked: str | None = None, **changes: Any) -> PoolView:
    state = PoolState(pool(**changes), replicas, waiting, blocked_reason=blocked)
    (view,) = seen(state, small_reserved="queue_depth: load 9 on 2 x 4 slots").pools
    return view


def test_pool_is_what_the_best_of_its_replicas_is() -> None:
    starting, draining = replica("b", ReplicaState.STARTING), replica("c", ReplicaState.DRAINING)
    assert one().state == "COLD"
    assert one(draining).state == "DRAINING"
    assert one(draining, starting).state == "STARTING"
    assert one(draining, starting, replica("a")).state == "WARM"


def test_reason_is_the_controllers_own() -> None:
    view = one(replica("a"))
    assert (view.reason_kind, view.reason) == ("queue depth", "load 9 on 2 x 4 slots")


def test_demand_on_a_pool_is_shown_in_numbers() -> None:
    """As they stand in the decision; a pool without demand has none to show."""
    terms = Terms(
        running=3,
        waiting=2,
        tokens_running=400,
        tokens_waiting=600,
        arrivals_per_s=1.5,
        open_mean=4.5,
        tokens_per_call=300.0,
        tokens_per_s=1250.0,
        ttft_s=1.0,
        start_s=8.0,
        deadline_s=20.0,
        for_first_token=2,
        for_deadlines=1,
        for_load=0,
        keep_s=120.0,
    )
    intents = {"small-reserved": Intent(2, "steady: x", terms)}
    state = PoolState(pool(), (replica("a"),), 2)
    view = fleet_view(FleetSnapshot(NOW_S, MODELS, (state,)), intents, {}, age_s=0.1)
    assert view.pools[0].numbers == (
        "5 open calls, 1,000 tokens to do, 1,250 tokens/s a replica; "
        "needed: 2 for first tokens, 1 for deadlines"
    )
    assert one(replica("a")).numbers == ""


def test_cold_pool_says_what_the_next_call_causes() -> None:
    assert one().summary == "the next call starts a replica in about 8 s"
    assert one(waiting=2).summary == "a replica is asked for"
    blocked = one(waiting=2, blocked="3 failed starts, next in 9 s: no such file")
    assert blocked.summary == "no replica; starting one is put off"
    assert (blocked.is_blocked, blocked.reason) == (
        True,
        "3 failed starts, next in 9 s: no such file",
    )


def test_slots_are_those_of_warm_replicas() -> None:
    view = one(replica("a", running=3), replica("b", ReplicaState.STARTING))
    assert (view.slots_used, view.slots_total) == (3, 4)
    assert [r.doing for r in view.replicas] == ["3 of 4 slots", "ready in about 8 s"]
    assert one(replica("a", running=4, queued=2)).replicas[0].doing == "4 of 4 slots, 2 queued"


def test_start_that_takes_longer_than_usual_does_not_count_below_zero() -> None:
    slow = replica("a", ReplicaState.STARTING, since_ms=round(NOW_S * 1000) - 60_000)
    (shown,) = one(slow).replicas
    assert (shown.doing, shown.since) == ("ready any moment", "1 min")


def test_price_is_by_the_hour_and_exact() -> None:
    view = one(replica("a"), replica("b"), cost_nanousd_per_s=90_001)
    assert view.price_per_hour.text == "0.3240036"
    assert view.burn_per_hour.text == "0.6480072"


def test_fleet_counts_states_and_external_pools_are_no_replicas() -> None:
    outside = pool(
        "outside",
        capacity_class=CapacityClass.EXTERNAL,
        base_url="https://api.example.com/v1",
        upstream_model="their-small",
    )
    view = seen(
        PoolState(outside, (), 0),
        PoolState(pool("a"), (replica("1"), replica("2", ReplicaState.STARTING)), 3),
        PoolState(pool("b"), (), 0),
    )
    assert (view.warm, view.starting, view.waiting, view.cold_pools) == (1, 1, 3, 1)
    assert view.summary == "1 starting, 1 pool cold"
    assert [p.name for p in view.pools] == ["a", "b", "outside"]
    assert (view.pools[2].state, view.pools[2].base_url, view.pools[2].upstream_model) == (
        "EXTERNAL",
        "https://api.example.com/v1",
        "their-small",
    )


def test_what_a_server_outside_refused_is_shown_while_it_is_news() -> None:
    state = PoolState(external(), (), 0)
    faults = {"outside": LastFault(NOW_S - 12, Fault(401, "no such key"))}
    snapshot = FleetSnapshot(NOW_S, MODELS, (state,))
    [shown] = fleet_view(snapshot, {}, faults, age_s=0.0).pools
    assert shown.reason == "its server answered 401: no such key (12 s ago, seen by this gateway)"
    assert shown.is_blocked
    old = {"outside": LastFault(NOW_S - 3600, Fault(401, "no such key"))}
    [shown] = fleet_view(snapshot, {}, old, age_s=0.0).pools
    assert (shown.is_blocked, shown.reason) == (False, "priced by the token, never scaled")


def test_pool_whose_key_is_not_set_says_so() -> None:
    [shown] = seen(PoolState(external(), (), 0, blocked_reason="its key is not set")).pools
    assert (shown.is_blocked, shown.reason) == (True, "its key is not set")


def test_silent_controller_is_said() -> None:
    assert seen().silent_for == ""
    assert seen(age_s=75).silent_for == "1 min"
