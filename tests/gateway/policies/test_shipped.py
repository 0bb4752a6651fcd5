"""What the shipped policy promises of each tier, over any fleet."""

from __future__ import annotations

from hypothesis import given

from gateway.policies.shipped import shipped_policy
from routing.decide import decide
from routing.types import Call, FleetSnapshot, PoolState, ReplicaState, Tier
from tests.gateway.decisions.records import attributes_of
from tests.routing.test_decision_laws import calls, eligible, fleets, seeds

SHIPPED = shipped_policy()


def begins_at_once(state: PoolState) -> bool:
    is_warm = any(each.state is ReplicaState.WARM for each in state.replicas)
    return is_warm or state.pool.is_external or not state.pool.cold_start_s


@given(calls, fleets(), seeds)
def test_a_priority_call_never_waits_for_a_start_beside_a_warm_pool(
    call: Call, snapshot: FleetSnapshot, seed: int
) -> None:
    call = call._replace(tier=Tier.PRIORITY)
    matched = SHIPPED.match(attributes_of(call))
    assert matched.rule == "priority"
    warm = {each.pool.name for each in snapshot.pools if begins_at_once(each)}
    order = eligible(decide(call, snapshot, matched, seed))
    assert order == sorted(order, key=lambda name: name not in warm), "every warm one first"
