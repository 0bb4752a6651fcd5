"""`decide` by example: refusals, what each tier prefers, and each word of a rule."""

from __future__ import annotations

from typing import Any

from routing import decide as deciding
from routing.hardware.catalogue import Precision
from routing.policy.action import (
    Action,
    ColdStart,
    LatencyPreference,
    OnExceed,
    PriceBound,
    Sort,
    Target,
    TargetKind,
)
from routing.policy.narrow import Preferences, narrowed
from routing.speeds import Speeds
from routing.types import (
    Call,
    CapacityClass,
    Decision,
    FleetSnapshot,
    Leave,
    PoolState,
    Refusal,
    RefusalKind,
    ReplicaState,
    Tier,
)
from routing.variants import Validation, Variant
from tests.routing.fleets import (
    NOW_S,
    call,
    external,
    fleet,
    matched,
    pool,
    replica,
    state,
    warm,
)

SPOT = CapacityClass.SPOT


def decide(
    wanted: Call, snapshot: FleetSnapshot, seed: int = 1, action: Action | None = None
) -> Decision | Refusal:
    return deciding.decide(wanted, snapshot, matched(action, wanted.tier), seed)


def chosen(wanted: Call, snapshot: FleetSnapshot) -> str:
    decided = decide(wanted, snapshot)
    assert isinstance(decided, Decision), decided
    return decided.chosen.pool


def refused(wanted: Call, snapshot: FleetSnapshot) -> Refusal:
    decided = decide(wanted, snapshot)
    assert isinstance(decided, Refusal), decided
    return decided


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
    wanted = call(leave=Leave(capacity_classes=frozenset({CapacityClass.RESERVED})))
    snapshot = fleet(warm(pool("reserved")), warm(pool("spot", capacity_class=SPOT)))
    decision = decide(wanted, snapshot)
    assert isinstance(decision, Decision)
    assert [c.pool for c in decision.eligible] == ["reserved"]
    assert decision.candidates[-1].reason == "the key may not use spot capacity"


def test_no_capacity_that_the_key_may_use_is_refused_for_good() -> None:
    refusal = refused(call(leave=Leave(capacity_classes=frozenset())), fleet(warm(pool())))
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


# --- the words of a rule --------------------------------------------------------------------------

THREE = fleet(
    warm(pool("dear", cost_nanousd_per_s=90_000)),
    warm(pool("spot", capacity_class=SPOT, cost_nanousd_per_s=10_000)),
    state(pool("cold", cost_nanousd_per_s=100, cold_start_s=5.0)),
)


def named(*names: str) -> frozenset[Target]:
    return frozenset(Target(TargetKind.POOL, name) for name in names)


def order(snapshot: FleetSnapshot, **words: Any) -> list[str]:
    decided = decide(call(), snapshot, action=Action(**words))
    return [each.pool for each in decided.candidates if each.eligible]


def test_only_and_ignore_name_pools_and_providers() -> None:
    assert order(THREE, only=named("cold")) == ["cold"]
    assert "dear" not in order(THREE, ignore=named("dear"))
    elsewhere = fleet(warm(pool("a", provider="ours")), warm(pool("b")))
    ours = frozenset({Target(TargetKind.PROVIDER, "ours")})
    assert (order(elsewhere, only=ours), order(elsewhere, ignore=ours)) == (["a"], ["b"])


def test_an_order_comes_first_and_the_sum_after_it() -> None:
    wanted = tuple(Target(TargetKind.POOL, name) for name in ("cold", "dear"))
    assert order(THREE, order=wanted) == ["cold", "dear", "spot"]
    assert order(THREE, order=wanted, allow_fallbacks=False) == ["cold"]


def test_a_pool_can_be_chosen_by_price_latency_or_throughput_alone() -> None:
    slow = warm(pool("slow", cost_nanousd_per_s=1), learned=Speeds(0.9, 0.0, 0.001, 0.0))
    fast = warm(pool("fast", cost_nanousd_per_s=9), learned=Speeds(0.1, 0.0, 0.1, 0.1))
    both = fleet(slow, fast)
    assert order(both, sort=Sort.PRICE)[0] == order(both, sort=Sort.THROUGHPUT)[0] == "slow"
    assert order(both, sort=Sort.LATENCY)[0] == "fast"


def test_a_rule_that_leaves_no_pool_says_why_without_a_figure_of_ours_and_who_narrowed_it() -> None:
    refusal = decide(call(), fleet(warm(pool())), action=Action(max_price=PriceBound(1, 1)))
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.retry_after_s) == (RefusalKind.POLICY, None)
    assert refusal.message == (
        "small: the rule 'a-rule' leaves no pool "
        "(small-reserved: it is dearer than the route allows)"
    )
    mine = narrowed(matched(), Preferences(only=named("far")), {})
    refusal = deciding.decide(call(), fleet(warm(pool())), mine, 1)
    assert isinstance(refusal, Refusal)
    assert refusal.message == (
        "small: the rule 'a-rule' and the call's 'provider' leave no pool "
        "(small-reserved: the route takes other pools only)"
    )
    unvalidated = decide(call(), fleet(warm(pool())), action=Action(quality_min=0.1))
    assert "was not validated" in unvalidated.candidates[0].reason


def test_quality_is_that_of_the_variant_for_the_rules_use_case() -> None:
    def of(name: str, score: float) -> PoolState:
        measured = {"code": Validation("code", score, "pass@1", "2026-01-01", 100)}
        declared = Variant("small", name, Precision.FP16, quality=measured)
        return warm(pool(name, declared=declared))

    both = fleet(of("weak", 0.5), of("strong", 0.9))
    assert order(both, use_case="code") == ["strong", "weak"]
    assert order(both, use_case="code", quality_min=0.8) == ["strong"]


def test_a_start_that_is_too_long_comes_behind_or_is_ruled_out() -> None:
    free = {"wait_nanousd_per_s": 0}
    assert order(THREE, **free)[0] == "cold"
    assert order(THREE, **free, cold_start=ColdStart(4.0))[-1] == "cold"
    assert order(THREE, **free, cold_start=ColdStart(6.0))[0] == "cold"
    strict = Action(only=named("cold"), cold_start=ColdStart(4.0, OnExceed.REFUSE))
    refusal = decide(call(), THREE, action=strict)
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.soonest_pool) == (RefusalKind.DEADLINE, "cold")
    assert refusal.message == "small: ready in about 5.0 s, the rule waits 4 s at most"


def test_a_pool_that_is_slower_than_the_preferred_latency_comes_behind() -> None:
    latency = LatencyPreference(((0.95, 1.0),))
    assert order(THREE, wait_nanousd_per_s=0, preferred_max_latency=latency)[-1] == "cold"


def test_a_shadow_is_decided_beside_the_rule_and_changes_nothing() -> None:
    shadowed = matched(Action())._replace(shadow=Action(only=named("cold")))
    decision = deciding.decide(call(), THREE, shadowed, 1)
    plain = deciding.decide(call(), THREE, matched(Action()), 1)
    assert isinstance(decision, Decision) and isinstance(plain, Decision)
    assert decision.candidates == plain.candidates
    assert isinstance(decision.shadow, Decision)
    assert (decision.shadow.chosen.pool, decision.shadow.chosen.model) == ("cold", "small")
    nowhere = matched(Action())._replace(shadow=Action(only=named("gone")))
    decision = deciding.decide(call(), THREE, nowhere, 1)
    assert isinstance(decision, Decision)
    assert isinstance(decision.shadow, Refusal)
    assert decision.shadow.kind.value == "route_not_allowed"
