"""What the shipped policy promises of each tier, over any fleet."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given

from gateway.policies.shipped import shipped_policy
from routing.decide import decide
from routing.types import Call, FleetSnapshot, PoolState, ReplicaState, Tier
from tests.gateway.decisions.records import attributes_of
from tests.routing.strategies import calls, eligible, fleets, seeds

SHIPPED = shipped_policy()


def begins_at_once(state: PoolState) -> bool:
    is_warm = any(each.state is ReplicaState.WARM for each in state.replicas)
    return is_warm or state.pool.is_external or not state.pool.cold_start_s


def tempting(state: PoolState) -> PoolState:
    factor = 1000 if begins_at_once(state) else 0
    return replace(
        state,
        pool=replace(
            state.pool,
            cost_nanousd_per_s=factor * state.pool.cost_nanousd_per_s,
            cost_input_nanousd_per_mtok=factor * state.pool.cost_input_nanousd_per_mtok,
            cost_output_nanousd_per_mtok=factor * state.pool.cost_output_nanousd_per_mtok,
        ),
    )


@given(calls, fleets(), seeds)
def test_a_priority_call_never_waits_for_a_start_beside_a_warm_pool(
    call: Call, snapshot: FleetSnapshot, seed: int
) -> None:
    """Were the start for nothing, and every warm pool a thousand times as dear."""
    call = call._replace(tier=Tier.PRIORITY)
    snapshot = snapshot._replace(pools=tuple(map(tempting, snapshot.pools)))
    matched = SHIPPED.match(attributes_of(call))
    assert matched.rule == "priority"
    warm = {each.pool.name for each in snapshot.pools if begins_at_once(each)}
    order = eligible(decide(call, snapshot, matched, seed))
    assert order == sorted(order, key=lambda name: name not in warm), "every warm one first"
