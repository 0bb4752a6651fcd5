"""Fleets to decide over: examples by hand, and any fleet at all by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from routing.policy.action import Action, ColdStart, Matched
from routing.types import (
    Call,
    CapacityClass,
    FleetSnapshot,
    Model,
    Pool,
    PoolState,
    Replica,
    ReplicaState,
    Tier,
)

NOW_S = 1_790_000_000.0

SMALL = Model("small", None, 512, 256, 1, 0.4)
LARGE = Model("large", None, 512, 256, 2, 0.8)
MODELS = {"small": SMALL, "large": LARGE}

ROUTES = {
    Tier.PRIORITY: Action(
        wait_nanousd_per_s=2_000_000,
        quality_nanousd_per_step=1_000_000,
        spot_loss_nanousd=5_000_000_000,
        cold_start=ColdStart(0.0),
    ),
    Tier.DEFAULT: Action(),
    Tier.FLEX: Action(
        wait_nanousd_per_s=2_000, quality_nanousd_per_step=10_000, spot_loss_nanousd=0
    ),
}


def matched(action: Action | None = None, tier: Tier = Tier.DEFAULT) -> Matched:
    return Matched("a-rule", 7, action or ROUTES[tier])


def pool(name: str = "small-reserved", **changes: Any) -> Pool:
    values: dict[str, Any] = {
        "model": "small",
        "variant": "fp16",
        "capacity_class": CapacityClass.RESERVED,
        "max_replicas": 2,
        "max_ongoing": 4,
        "cost_nanousd_per_s": 20_000,
        "cost_input_nanousd_per_mtok": 0,
        "cost_output_nanousd_per_mtok": 0,
        "cold_start_s": 8.0,
    }
    return Pool(name=name, **(values | changes))


def replica(
    name: str = "r1", state: ReplicaState = ReplicaState.WARM, running: int = 0, **changes: Any
) -> Replica:
    values: dict[str, Any] = {
        "address": f"http://127.0.0.2/{name}",
        "since_ms": round(NOW_S * 1000),
        "queued": 0,
    }
    return Replica(id=name, state=state, running=running, **(values | changes))


def state(of: Pool, *replicas: Replica, **changes: Any) -> PoolState:
    return PoolState(pool=of, replicas=replicas, **({"waiting": 0} | changes))


def warm(of: Pool, **changes: Any) -> PoolState:
    return state(of, replica(f"{of.name}-1"), **changes)


def fleet(*pools: PoolState) -> FleetSnapshot:
    return FleetSnapshot(NOW_S, MODELS, pools)


def external(name: str = "outside", **changes: Any) -> Pool:
    values: dict[str, Any] = {
        "capacity_class": CapacityClass.EXTERNAL,
        "base_url": "https://example.org/v1",
        "upstream_model": "their-small",
        "cost_input_nanousd_per_mtok": 1_000_000_000,
        "cost_output_nanousd_per_mtok": 4_000_000_000,
    }
    return pool(name, **(values | changes))


def call(*models: str, tier: Tier = Tier.DEFAULT, **changes: Any) -> Call:
    names = models or ("small",)
    values: dict[str, Any] = {
        "request_id": "req_1",
        "organization": "org_1",
        "project": "proj_1",
        "key": "key_1",
        "model_requested": names[0] if len(names) == 1 else "auto",
        "stream": True,
        "prompt_tokens": {name: 20 for name in MODELS},
        "output_tokens_max": 100,
        "arrived_s": NOW_S,
        "deadline_s": NOW_S + 120.0,
    }
    return Call(models=names, tier=tier, **(values | changes))


# --- any fleet at all -----------------------------------------------------------------------------

small_ints = st.integers(0, 20)
replicas_of_any_kind = st.builds(
    Replica,
    id=st.integers(0, 999).map("r{}".format),
    address=st.just("http://127.0.0.2:1"),
    state=st.sampled_from(ReplicaState),
    since_ms=st.integers(round(NOW_S * 1000) - 60_000, round(NOW_S * 1000) + 1_000),
    running=small_ints,
    queued=small_ints,
)


@st.composite
def any_pool_state(draw: st.DrawFn, name: str) -> PoolState:
    capacity_class = draw(st.sampled_from(CapacityClass))
    of = pool(
        name,
        model=draw(st.sampled_from(list(MODELS))),
        capacity_class=capacity_class,
        max_replicas=draw(st.integers(0, 3)),
        max_ongoing=draw(st.integers(1, 16)),
        cost_nanousd_per_s=draw(st.integers(0, 10**6)),
        cost_input_nanousd_per_mtok=draw(st.integers(0, 10**10)),
        cost_output_nanousd_per_mtok=draw(st.integers(0, 10**10)),
        cold_start_s=draw(st.floats(0, 100)),
    )
    outside = capacity_class is CapacityClass.EXTERNAL
    replicas = () if outside else tuple(draw(st.lists(replicas_of_any_kind, max_size=4)))
    return PoolState(
        pool=of,
        replicas=replicas,
        waiting=draw(small_ints),
        blocked_reason=draw(st.none() | st.just("2 failed starts, next in 9 s")),
    )


@st.composite
def any_fleet(draw: st.DrawFn, pools_min: int = 0) -> FleetSnapshot:
    count = draw(st.integers(pools_min, 6))
    snapshot = fleet(*(draw(any_pool_state(f"pool-{number}")) for number in range(count)))
    return snapshot._replace(in_flight={s.pool.name: draw(small_ints) for s in snapshot.pools})


@st.composite
def any_call(draw: st.DrawFn) -> Call:
    models = draw(st.sampled_from([("small",), ("large",), ("small", "large")]))
    return call(
        *models,
        tier=draw(st.sampled_from(Tier)),
        prompt_tokens={name: draw(st.integers(1, 600)) for name in MODELS},
        output_tokens_max=draw(st.integers(1, 256)),
        deadline_s=NOW_S + draw(st.floats(0.001, 200)),
    )
