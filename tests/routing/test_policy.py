"""`decide`: the laws over any fleet, then what each tier prefers by example."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from routing import policy
from routing.types import (
    Call,
    CapacityClass,
    Decision,
    FleetSnapshot,
    Refusal,
    RefusalKind,
    ReplicaState,
    Tier,
)
from tests.routing.fleets import (
    NOW_S,
    POLICY,
    any_call,
    any_fleet,
    call,
    external,
    fleet,
    pool,
    replica,
    state,
    warm,
)

SPOT = CapacityClass.SPOT


def decide(wanted: Call, snapshot: FleetSnapshot, seed: int = 1) -> Decision | Refusal:
    return policy.decide(wanted, snapshot, POLICY, Random(seed))


def chosen(wanted: Call, snapshot: FleetSnapshot) -> str:
    decided = decide(wanted, snapshot)
    assert isinstance(decided, Decision), decided
    return decided.chosen.pool


def refused(wanted: Call, snapshot: FleetSnapshot) -> Refusal:
    decided = decide(wanted, snapshot)
    assert isinstance(decided, Refusal), decided
    return decided


# --- laws ---------------------------------------------------------------------------------------


@given(any_call(), any_fleet(), st.integers())
def test_same_call_snapshot_policy_and_seed_decide_the_same(
    wanted: Call, snapshot: FleetSnapshot, seed: int
) -> None:
    assert decide(wanted, snapshot, seed) == decide(wanted, snapshot, seed)


@given(any_call(), any_fleet())
def test_deciding_changes_neither_call_nor_snapshot(wanted: Call, snapshot: FleetSnapshot) -> None:
    before = repr((wanted, snapshot))
    decide(wanted, snapshot)
    assert repr((wanted, snapshot)) == before


@given(any_call(), any_fleet())
def test_every_pool_of_the_models_is_a_candidate_once_with_a_reason(
    wanted: Call, snapshot: FleetSnapshot
) -> None:
    candidates = decide(wanted, snapshot).candidates
    expected = sorted(s.pool.name for s in snapshot.pools if s.pool.model in wanted.models)
    assert sorted(c.pool for c in candidates) == expected
    assert all(c.reason for c in candidates)


@given(any_call(), any_fleet())
def test_candidates_stand_in_order_of_score_with_the_ruled_out_last(
    wanted: Call, snapshot: FleetSnapshot
) -> None:
    candidates = decide(wanted, snapshot).candidates
    order = [(not c.eligible, c.score_nanousd) for c in candidates]
    assert order == sorted(order)


@given(any_call(), any_fleet())
def test_no_candidate_beyond_the_deadline_or_the_window_is_eligible(
    wanted: Call, snapshot: FleetSnapshot
) -> None:
    for candidate in decide(wanted, snapshot).candidates:
        if candidate.eligible:
            assert candidate.wait_s <= wanted.deadline_s - snapshot.at_s + 0.001
            window = snapshot.models[candidate.model].context_tokens
            assert wanted.prompt_tokens[candidate.model] < window


@given(any_call(), any_fleet())
def test_a_decision_has_somewhere_to_go_and_a_refusal_has_not(
    wanted: Call, snapshot: FleetSnapshot
) -> None:
    decided = decide(wanted, snapshot)
    if isinstance(decided, Decision):
        assert decided.chosen.eligible
        assert decided.eligible[0] == decided.chosen
        assert decided.policy_revision == POLICY.revision
    else:
        assert not any(c.eligible for c in decided.candidates)
        final = decided.kind is RefusalKind.CONTEXT_LENGTH
        assert (decided.retry_after_s is None) == final
        assert final or (decided.retry_after_s or 0) >= 1.0


@given(any_call(), any_fleet())
def test_no_score_is_negative_and_cost_is_part_of_it(wanted: Call, snapshot: FleetSnapshot) -> None:
    for candidate in decide(wanted, snapshot).candidates:
        assert 0 <= candidate.cost_nanousd <= candidate.score_nanousd


def test_equal_pools_share_the_load_by_chance() -> None:
    twins = fleet(warm(pool("a")), warm(pool("b")))
    found = {decide(call(), twins, seed).candidates[0].pool for seed in range(20)}
    assert found == {"a", "b"}


# --- refusals -----------------------------------------------------------------------------------


def test_no_pool_for_the_model_is_refused() -> None:
    refusal = refused(call("large"), fleet(warm(pool())))
    assert (refusal.kind, refusal.candidates) == (RefusalKind.NO_POOL, ())


def test_prompt_as_long_as_the_window_is_refused_for_good() -> None:
    refusal = refused(call(prompt_tokens={"small": 512}), fleet(warm(pool())))
    assert refusal.kind is RefusalKind.CONTEXT_LENGTH
    assert refusal.retry_after_s is None


def test_deadline_shorter_than_the_cold_start_is_refused_at_once_with_the_start_as_retry() -> None:
    refusal = refused(call(deadline_s=NOW_S + 2), fleet(state(pool())))
    assert (refusal.kind, refusal.retry_after_s) == (RefusalKind.DEADLINE, 8.0)


def test_blocked_cold_pool_is_refused_with_the_controllers_words() -> None:
    refusal = refused(call(), fleet(state(pool(), blocked_reason="2 failed starts")))
    assert refusal.kind is RefusalKind.CAPACITY
    assert "2 failed starts" in refusal.message


def test_blocked_pool_with_a_warm_replica_still_serves() -> None:
    assert chosen(call(), fleet(warm(pool(), blocked_reason="2 failed starts")))


def test_pool_that_may_have_no_replicas_is_refused() -> None:
    refusal = refused(call(), fleet(state(pool(max_replicas=0))))
    assert refusal.kind is RefusalKind.CAPACITY


def test_capacity_that_the_key_may_not_use_is_passed_over_with_the_reason() -> None:
    wanted = call(capacity_classes=frozenset({CapacityClass.RESERVED}))
    snapshot = fleet(warm(pool("reserved")), warm(pool("spot", capacity_class=SPOT)))
    decision = decide(wanted, snapshot)
    assert isinstance(decision, Decision)
    assert [c.pool for c in decision.eligible] == ["reserved"]
    assert decision.candidates[-1].reason == "the key may not use spot capacity"


def test_no_capacity_that_the_key_may_use_is_refused_for_good() -> None:
    refusal = refused(call(capacity_classes=frozenset()), fleet(warm(pool())))
    assert (refusal.kind, refusal.retry_after_s) == (RefusalKind.FORBIDDEN, None)


def test_window_is_blamed_only_if_no_model_could_take_the_prompt_later() -> None:
    """A larger model that is merely cold is worth a retry: the prompt is not too long."""
    wanted = call("small", "large", prompt_tokens={"small": 600, "large": 20})
    snapshot = fleet(warm(pool()), state(pool("l", model="large"), blocked_reason="failing"))
    assert refused(wanted, snapshot).kind is RefusalKind.CAPACITY


# --- what tiers prefer ----------------------------------------------------------------------------

RESERVED_AND_SPOT = fleet(
    warm(pool("reserved")), warm(pool("spot", capacity_class=SPOT, cost_nanousd_per_s=5_000))
)
BOTH_SIZES = fleet(
    warm(pool("small", cost_nanousd_per_s=20_000)),
    warm(pool("large", model="large", cost_nanousd_per_s=80_000)),
)
WARM_DEAR_OR_COLD_CHEAP = fleet(
    warm(pool("dear", cost_nanousd_per_s=90_000)),
    state(pool("cheap", cost_nanousd_per_s=100, cold_start_s=5.0)),
)


def test_flex_takes_the_cheap_spot_pool_and_priority_the_reserved_one() -> None:
    assert chosen(call(tier=Tier.FLEX), RESERVED_AND_SPOT) == "spot"
    assert chosen(call(tier=Tier.PRIORITY), RESERVED_AND_SPOT) == "reserved"


def test_flex_takes_the_small_model_and_priority_the_large_one() -> None:
    models = ("small", "large")
    assert chosen(call(*models, tier=Tier.FLEX), BOTH_SIZES) == "small"
    assert chosen(call(*models, tier=Tier.PRIORITY), BOTH_SIZES) == "large"


def test_flex_waits_for_the_cheap_cold_pool_and_priority_pays_for_the_warm_one() -> None:
    assert chosen(call(tier=Tier.FLEX), WARM_DEAR_OR_COLD_CHEAP) == "cheap"
    assert chosen(call(tier=Tier.PRIORITY), WARM_DEAR_OR_COLD_CHEAP) == "dear"


def test_external_pool_takes_over_when_own_workers_cannot_make_the_deadline() -> None:
    snapshot = fleet(state(pool()), warm(external()))
    assert chosen(call(deadline_s=NOW_S + 2), snapshot) == "outside"


def test_full_pool_is_passed_over_for_an_idle_one_of_equal_cost() -> None:
    full = state(pool("full"), replica(running=4, queued=20))
    assert chosen(call(), fleet(full, warm(pool("idle")))) == "idle"


def test_starting_replica_is_waited_for_only_as_long_as_is_left_of_its_start() -> None:
    begun = replica(state=ReplicaState.STARTING, since_ms=round((NOW_S - 6) * 1000))
    decided = decide(call(deadline_s=NOW_S + 3), fleet(state(pool(cold_start_s=8.0), begun)))
    assert decided.candidates[0].eligible
    assert decided.candidates[0].wait_s == 2.0


def test_draining_replicas_do_not_make_a_pool_look_paid_for() -> None:
    """On its way to zero the pool has to be started again, by and for this call."""
    leaving = state(pool(), replica(state=ReplicaState.DRAINING))
    cold = state(pool())
    of_leaving = decide(call(), fleet(leaving)).candidates[0]
    of_cold = decide(call(), fleet(cold)).candidates[0]
    assert of_leaving._replace(pool="") == of_cold._replace(pool="")


def test_rule_names_tier_and_whether_the_router_chose_the_model() -> None:
    named = decide(call(), RESERVED_AND_SPOT)
    free = decide(call("small", "large", tier=Tier.FLEX), BOTH_SIZES)
    assert isinstance(named, Decision) and named.rule == "default/named"
    assert isinstance(free, Decision) and free.rule == "flex/auto"
