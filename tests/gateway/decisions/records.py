"""Records of decisions: any of them by Hypothesis, and one over fifty pools."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gateway.decisions.record import DecisionOutcome, DecisionRecord
from routing.gauges import Gauges
from routing.policy.action import Sort, Target, TargetKind
from routing.policy.attributes import Attributes, completed
from routing.policy.narrow import Preferences
from routing.types import Call, FleetSnapshot, Leave, PoolState
from tests.routing.fleets import MODELS, NOW_S, any_call, any_fleet, pool, replica, state

WISH = Preferences(
    only=frozenset({Target(TargetKind.POOL, "a"), Target(TargetKind.PROVIDER, "b")}),
    order=(Target(TargetKind.POOL, "a"),),
    sort=Sort.PRICE,
    quantizations=frozenset({"fp8", "int4"}),
    data_collection_allowed=False,
)
LEAVE = Leave(regions=frozenset({"eu", "us"}), tiers=frozenset({"flex"}))
OUTCOMES = st.builds(
    DecisionOutcome,
    rule=st.just("default"),
    policy_revision=st.integers(1, 9),
    pool=st.none() | st.just("pool-1"),
    refused=st.none() | st.just("capacity"),
    digest=st.binary(min_size=8, max_size=8),
)


def attributes_of(call: Call, **more: Any) -> Attributes:
    said: dict[str, Any] = {
        "req.model": call.model_requested,
        "req.service_tier": call.tier.value,
        "req.est_tokens": max(call.prompt_tokens.values()),
        "req.max_tokens": call.output_tokens_max,
        "req.stream": call.stream,
        "tenant.organization": call.organization,
        "tenant.project": call.project,
        "tenant.key": call.key,
        "model.name": call.model_requested,
        "time.hour": 15,
    }
    return completed(said | more)


@st.composite
def any_record(draw: st.DrawFn) -> DecisionRecord:
    call = draw(any_call())._replace(
        leave=draw(st.sampled_from([Leave(), LEAVE])),
        extra_fields=draw(st.sampled_from([frozenset[str](), frozenset({"top_k", "min_p"})])),
        longest_prompt_tokens=draw(st.none() | st.just({"small": 3})),
    )
    snapshot = draw(any_fleet())
    names = [state.pool.name for state in snapshot.pools]
    in_flight = {name: draw(st.integers(1, 300)) for name in names if draw(st.booleans())}
    metadata = draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2))
    return DecisionRecord(
        call=call,
        attributes=attributes_of(
            call,
            **{"req.metadata": metadata, "budget.remaining_usd": draw(st.floats(0, 10**6))},
        ),
        snapshot=snapshot._replace(in_flight=in_flight),
        seed=draw(st.integers(0, 2**64 - 1)),
        outcome=draw(OUTCOMES),
        wish=draw(st.sampled_from([Preferences(), WISH])),
        left_out=draw(st.sampled_from([(), (("large", "has limits"),)])),
        error=draw(st.none() | st.just("rate_limit_exceeded")),
    )


def busy_fleet(pools: int, instant: int, before: FleetSnapshot | None = None) -> FleetSnapshot:
    """As many pools with two replicas each. At each instant two pools differ from the fleet of the
    instant before, and the others are the same values."""
    at_s = NOW_S + instant / 3
    if before is None:
        return FleetSnapshot(at_s, MODELS, tuple([_busy(number, 0) for number in range(pools)]))
    states = list(before.pools)
    for number in (2 * instant % pools, (2 * instant + 1) % pools):
        states[number] = _busy(number, instant)
    return before._replace(at_s=at_s, pools=tuple(states))


def _busy(number: int, load: int) -> PoolState:
    of = pool(f"pool-{number}", cost_nanousd_per_s=10_000 + number)
    replicas = [
        replica(
            f"{of.name}-{each}",
            running=(number + load + each) % 4,
            gauges=Gauges(1000 + 37 * load % 70_000, 80_000, 40_000, 512 * load % 9000, 90 * each),
        )
        for each in range(2)
    ]
    return state(of, *replicas)
