"""Calls, fleets and rules for the laws of a decision, as Hypothesis draws them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from routing.policy.action import (
    Action,
    ColdStart,
    LatencyPreference,
    Matched,
    OnExceed,
    PriceBound,
    Sort,
    Target,
    TargetKind,
)
from routing.speeds import GUESS_FACTORS, Speeds
from routing.types import (
    Call,
    CapacityClass,
    Decision,
    FleetSnapshot,
    Leave,
    PoolState,
    Refusal,
    RefusalKind,
)
from tests.routing.fleets import NOW_S, any_call, any_fleet, replica, small_ints, warm

POOLS = [f"pool-{number}" for number in range(6)]


targets = st.frozensets(
    st.builds(Target, st.just(TargetKind.POOL), st.sampled_from(POOLS)), min_size=1
)
regions = st.frozensets(st.sampled_from(["eu", "us"]), min_size=1)
amounts = st.integers(0, 10**10)
RESTRICTIONS: dict[str, st.SearchStrategy[Any]] = {
    "only": targets,
    "ignore": targets,
    "max_price": st.builds(PriceBound, st.none() | amounts, st.none() | amounts),
    "allow_fallbacks": st.just(False),
    "quantizations": st.sampled_from([frozenset({"fp16"}), frozenset({"int8"})]),
    "data_collection_allowed": st.just(False),
    "quality_min": st.floats(0, 1),
    "regions": regions,
    "cold_start": st.builds(ColdStart, st.floats(0, 50), st.sampled_from(OnExceed)),
}
BOUNDS: dict[str, st.SearchStrategy[Any]] = {
    "capacity_classes": st.frozensets(st.sampled_from(CapacityClass)),
    "regions": regions,
    "pools": st.frozensets(st.sampled_from(POOLS)),
    "data_collection_allowed": st.just(False),
}


def few(of: dict[str, st.SearchStrategy[Any]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    """Some of them. With all restrictions at once no pool is left, and every law about those that
    are is kept."""
    names = st.lists(st.sampled_from([*of]), max_size=most, unique=True)
    return names.flatmap(lambda drawn: st.fixed_dictionaries({name: of[name] for name in drawn}))


preferences = st.builds(
    Action,
    order=st.just(()) | targets.map(tuple),
    sort=st.none() | st.sampled_from(Sort),
    preferred_max_latency=st.none()
    | st.builds(LatencyPreference, st.just(((0.95, 1.0),)) | st.just(((0.5, 0.1),))),
    wait_nanousd_per_s=st.integers(0, 10**7),
    quality_nanousd_per_step=st.integers(0, 10**7),
    spot_loss_nanousd=st.integers(0, 10**10),
)
actions = st.builds(
    lambda action, words: replace(action, **words), preferences, few(RESTRICTIONS, 2)
)
leaves = st.builds(lambda words: Leave(**words), few(BOUNDS, 1))
prefixes = st.none() | st.dictionaries(st.sampled_from(POOLS), st.integers(1, 700))


@st.composite
def any_bound_call(draw: st.DrawFn) -> Call:
    """Three of four have a short prompt and much time."""
    call = draw(any_call())
    call = call if draw(st.integers(0, 3)) == 3 else patient(call)
    return call._replace(leave=draw(leaves), prefix_tokens=draw(prefixes))


calls = any_bound_call()
seeds = st.integers(0, 2**63 - 1)
NOT_ENTITLED = {
    RefusalKind.FORBIDDEN,
    RefusalKind.OTHER_REGION,
    RefusalKind.OTHER_POOL,
    RefusalKind.DATA_COLLECTION,
}
places = st.integers(0, 5)
speeds = st.builds(
    Speeds,
    st.floats(0, 2),
    st.floats(0, 0.01),
    st.floats(0, 0.5),
    st.floats(0, 0.1),
    st.just(GUESS_FACTORS),
    st.none() | st.floats(0, 0.01),
)


@st.composite
def fleets(draw: st.DrawFn) -> FleetSnapshot:
    """Any fleet, in regions, where some servers outside collect data and others do not, with
    something learned of some pools. Most can take a call, and some are twins."""
    snapshot = draw(any_fleet(pools_min=draw(st.sampled_from([3, 3, 3, 0]))))
    states = [
        replace(
            each,
            pool=replace(
                each.pool,
                region=draw(st.none() | st.sampled_from(["eu", "us"])),
                retention_days=draw(st.none() | st.sampled_from([0, 30])),
                trains=draw(st.none() | st.booleans()),
                cost_cached_input_nanousd_per_mtok=draw(st.none() | st.integers(0, 10**10)),
            ),
            learned=draw(st.none() | speeds),
            losses_per_s=draw(st.none() | st.floats(0, 0.01)),
            kept_share=draw(st.just(1.0) | st.floats(0, 1)),
            cached_share=draw(st.just(0.0) | st.floats(0, 1)),
        )
        for each in snapshot.pools
    ]
    states = [open_state(each, draw) if draw(st.integers(0, 3)) else each for each in states]
    if states and draw(st.booleans()):
        first, names = states[0], [each.pool.name for each in states]
        for at in draw(st.frozensets(st.integers(1, len(states)))) - {len(states)}:
            states[at] = replace(first, pool=replace(first.pool, name=names[at]))
    later_s = draw(st.sampled_from([0.0, 0.3, 7.123456789]))
    return snapshot._replace(pools=tuple(states), at_s=snapshot.at_s + later_s)


def open_state(state: PoolState, draw: st.DrawFn) -> PoolState:
    """The pool with a warm replica, and nothing in its way."""
    pool = replace(state.pool, max_replicas=max(1, state.pool.max_replicas))
    more = (replica(running=draw(small_ints), queued=draw(small_ints)),)
    own = () if pool.is_external else (*state.replicas, *more)
    return replace(state, pool=pool, replicas=own, blocked_reason=None)


def ready(snapshot: FleetSnapshot) -> FleetSnapshot:
    """The same pools, each of which can take a call."""
    pools = [replace(warm(state.pool), learned=state.learned) for state in snapshot.pools]
    return snapshot._replace(pools=tuple(pools))


def patient(call: Call) -> Call:
    """With a short prompt and much time."""
    prompts = {model: 1 + tokens // 6 for model, tokens in call.prompt_tokens.items()}
    return call._replace(prompt_tokens=prompts, deadline_s=NOW_S + 1000)


def matched(action: Action) -> Matched:
    return Matched("a-rule", 3, action)


def eligible(decided: Decision | Refusal) -> list[str]:
    return [each.pool for each in decided.candidates if each.eligible]


def with_state(snapshot: FleetSnapshot, number: int, state: PoolState) -> FleetSnapshot:
    pools = [*snapshot.pools]
    pools[number] = state
    return snapshot._replace(pools=tuple(pools))
