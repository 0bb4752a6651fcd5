"""The laws of a decision, over any fleet, call and rule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.decide import decide
from routing.plans import Plans
from routing.policy.action import (
    Action,
    PriceBound,
    Sort,
    Target,
    TargetKind,
)
from routing.types import (
    Call,
    CapacityClass,
    Decision,
    FleetSnapshot,
    Leave,
    Pool,
    PoolState,
    Refusal,
    RefusalKind,
    ReplicaState,
)
from tests.routing.fleets import warm
from tests.routing.strategies import (
    NOT_ENTITLED,
    POOLS,
    RESTRICTIONS,
    actions,
    calls,
    eligible,
    fleets,
    matched,
    patient,
    places,
    ready,
    seeds,
    with_state,
)

# ---- What a decision is


@given(calls, fleets(), actions, seeds)
def test_every_pool_of_the_models_is_a_candidate_once_with_a_reason(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int
) -> None:
    decided = decide(call, snapshot, matched(action), seed)
    expected = sorted(s.pool.name for s in snapshot.pools if s.pool.model in call.models)
    assert sorted(c.pool for c in decided.candidates) == expected
    assert all(c.reason and c.terms for c in decided.candidates)
    order = [not c.eligible for c in decided.candidates]
    assert order == sorted(order), "what was ruled out stands last"
    assert (decided.matched.rule, decided.matched.policy_revision) == ("a-rule", 3)
    assert decided.seed == seed
    if isinstance(decided, Decision):
        assert decided.chosen.eligible
        assert action.allow_fallbacks or len([*decided.eligible]) == 1
    else:
        assert not any(c.eligible for c in decided.candidates)
        assert (decided.retry_after_s is None) == decided.kind.is_incurable
        assert decided.retry_after_s is None or decided.retry_after_s >= 1.0


@given(calls, fleets(), actions, seeds)
def test_the_sum_is_its_terms_and_orders_candidates_where_the_rule_has_no_other_wish(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int
) -> None:
    plain = replace(action, sort=None, order=(), preferred_max_latency=None, cold_start=None)
    candidates = decide(call, snapshot, matched(plain), seed).candidates
    scores = [c.score_nanousd for c in candidates if c.eligible]
    assert scores == sorted(scores)
    for candidate in candidates:
        terms = [int(term.split()[-1]) for term in candidate.terms.split(" + ") if term != "free"]
        assert abs(sum(terms) - candidate.score_nanousd) <= len(terms) / 2 + 1
        assert 0 <= candidate.cost_nanousd <= candidate.score_nanousd + 1


@given(st.lists(st.tuples(calls, fleets(), actions, seeds), min_size=2, max_size=6))
def test_whoever_decides_with_kept_plans_decides_as_without(
    cases: list[tuple[Call, FleetSnapshot, Action, int]],
) -> None:
    plans = Plans()
    for call, snapshot, action, seed in [*cases, *cases]:
        remembered = decide(call, snapshot, matched(action), seed, plans)
        assert remembered == decide(call, snapshot, matched(action), seed)


OTHER_PROCESS = """
import json, sys
from random import Random
from tests.routing.test_decision_laws import numbered_decisions
print(json.dumps(numbered_decisions()))
"""


def numbered_decisions() -> list[list[str]]:
    """Many decisions between equal pools, where only the seed and hashes decide."""
    return [equal_pools(POOLS, seed) for seed in range(0, 2**40, 2**35)]


def equal_pools(names: Sequence[str], seed: int) -> list[str]:
    from tests.routing.fleets import call, fleet, pool

    snapshot = fleet(*(warm(pool(name)) for name in names))
    order = frozenset(Target(TargetKind.POOL, name) for name in names)
    action = Action(only=order, regions=None)
    return [c.pool for c in decide(call(), snapshot, matched(action), seed).candidates]


def test_another_process_decides_the_same() -> None:
    told = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        env={"PYTHONHASHSEED": "12345", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
        timeout=300,
    )
    assert json.loads(told.stdout) == numbered_decisions()


def test_equal_pools_share_the_load_by_seed() -> None:
    firsts = [names[0] for names in numbered_decisions()]
    assert len(set(firsts)) >= 4, "of six pools in 32 decisions"


# ---- What a rule and an entitlement forbid


def breaks(state: PoolState, call: Call, action: Action) -> bool:
    """The hard constraints once more, in other words than the product's."""
    pool = state.pool
    own = Target(TargetKind.POOL, pool.name)
    return (
        exceeds(pool, call.leave)
        or (action.regions is not None and pool.region not in action.regions)
        or (action.only is not None and own not in action.only)
        or own in action.ignore
        or (action.quantizations is not None and pool.variant not in action.quantizations)
        or (not action.data_collection_allowed and collects(pool))
        or action.quality_min is not None
    )


def exceeds(pool: Pool, leave: Leave) -> bool:
    """Whether the pool is one that an entitlement does not allow."""
    return (
        (leave.capacity_classes is not None and pool.capacity_class not in leave.capacity_classes)
        or (leave.regions is not None and pool.region not in leave.regions)
        or (leave.pools is not None and pool.name not in leave.pools)
        or (not leave.data_collection_allowed and collects(pool))
    )


def collects(pool: Pool) -> bool:
    is_private = pool.retention_days == 0 and pool.trains is False
    return pool.capacity_class is CapacityClass.EXTERNAL and not is_private


@given(calls, fleets(), actions, seeds)
def test_a_hard_constraint_is_never_broken(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int
) -> None:
    states = {each.pool.name: each for each in snapshot.pools}
    for name in eligible(decide(call, snapshot, matched(action), seed)):
        assert not breaks(states[name], call, action)


def words_against(pool: Pool) -> list[dict[str, Any]]:
    """Everything but this pool: each word of a rule alone."""
    own, price = Target(TargetKind.POOL, pool.name), pool.cost_output_nanousd_per_mtok
    words: list[dict[str, Any]] = [
        {"only": frozenset({Target(TargetKind.POOL, "another")})},
        {"ignore": frozenset({own})},
        {"regions": frozenset({"eu", "us"} - {pool.region})},
        {"quantizations": frozenset({"another"})},
        {"quality_min": 0.0},
    ]
    if collects(pool):
        words.append({"data_collection_allowed": False})
    if pool.is_external and price:
        words.append({"max_price": PriceBound(None, price - 1)})
    return words


@given(calls, fleets(), actions, seeds)
def test_each_word_of_a_rule_alone_rules_out_what_it_forbids(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int
) -> None:
    pools = {each.pool.name: each.pool for each in snapshot.pools}
    for name in eligible(decide(call, snapshot, matched(action), seed)):
        for words in words_against(pools[name]):
            narrow = matched(replace(action, **words))
            assert name not in eligible(decide(call, snapshot, narrow, seed)), words


def forbidding(pool: Pool) -> list[Leave]:
    """Everything but this pool: each entitlement alone."""
    others = {*CapacityClass} - {pool.capacity_class}
    leaves = [
        Leave(capacity_classes=frozenset(others)),
        Leave(regions=frozenset({"eu", "us"} - {pool.region})),
        Leave(pools=frozenset({*POOLS} - {pool.name})),
    ]
    return [*leaves, Leave(data_collection_allowed=False)] if collects(pool) else leaves


@given(calls.map(patient), fleets().map(ready), actions, actions, seeds)
def test_no_policy_widens_an_entitlement(
    call: Call, snapshot: FleetSnapshot, action: Action, shadow: Action, seed: int
) -> None:
    """A pool that the rule or its shadow takes is not taken by whoever may not use it: neither its
    region nor its class, nor the pool itself, nor an operator who keeps prompts."""
    pools = {each.pool.name: each.pool for each in snapshot.pools}
    free, both = call._replace(leave=Leave()), matched(action)._replace(shadow=shadow)
    for name in taken(decide(free, snapshot, both, seed)):
        for leave in forbidding(pools[name]):
            bound = decide(call._replace(leave=leave), snapshot, both, seed)
            assert name not in taken(bound), leave


def taken(decided: Decision | Refusal) -> list[str]:
    """By the rule, and by its shadow."""
    shadow = decided.shadow if isinstance(decided, Decision) else None
    return [*eligible(decided), *(eligible(shadow) if shadow else ())]


@given(calls, fleets(), actions, seeds)
def test_an_entitlement_only_takes_away(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int
) -> None:
    free = eligible(decide(call._replace(leave=Leave()), snapshot, matched(action), seed))
    if action.allow_fallbacks:
        assert {*free} >= {*eligible(decide(call, snapshot, matched(action), seed))}


@given(calls, fleets(), seeds, st.lists(actions, min_size=1, max_size=4))
def test_what_an_entitlement_forbids_is_refused_by_its_kind_whatever_the_rule(
    call: Call, snapshot: FleetSnapshot, seed: int, several: list[Action]
) -> None:
    """Where no pool of the call is left for it."""
    pools = [each.pool for each in snapshot.pools if each.pool.model in call.models]
    if not pools or not all(exceeds(pool, call.leave) for pool in pools):
        return
    refusals = [decide(call, snapshot, matched(action), seed) for action in several]
    for refusal in refusals:
        assert isinstance(refusal, Refusal) and refusal.kind in NOT_ENTITLED
        assert refusal.kind is refusals[0].kind  # type: ignore[union-attr]


@pytest.mark.parametrize("word", RESTRICTIONS)
@given(calls, fleets(), actions, seeds, st.data())
def test_widening_a_rule_never_refuses_more(
    word: str, call: Call, snapshot: FleetSnapshot, action: Action, seed: int, data: st.DataObject
) -> None:
    narrow = replace(action, **{word: data.draw(RESTRICTIONS[word])})
    wide = replace(action, **{word: getattr(Action(), word)})
    before = decide(call, snapshot, matched(narrow), seed)
    after = decide(call, snapshot, matched(wide), seed)
    assert isinstance(before, Refusal) or isinstance(after, Decision)
    if wide.allow_fallbacks:
        assert {*eligible(before)} <= {*eligible(after)}


# ---- What changes nothing, and what never helps


@given(calls, fleets(), actions, seeds, places)
def test_removing_a_loser_changes_nothing(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int, number: int
) -> None:
    decided = decide(call, snapshot, matched(action), seed)
    losers = [each.pool for each in decided.candidates][isinstance(decided, Decision) :]
    if not losers:
        return
    gone = losers[number % len(losers)]
    left = tuple(each for each in snapshot.pools if each.pool.name != gone)
    again = decide(call, snapshot._replace(pools=left), matched(action), seed)
    assert [*again.candidates] == [each for each in decided.candidates if each.pool != gone]


def test_equal_pools_keep_their_order_whoever_else_is_there() -> None:
    for seed in range(0, 2**40, 2**35):
        order = equal_pools(POOLS, seed)
        for gone in POOLS:
            left = [name for name in POOLS if name != gone]
            assert equal_pools(left, seed) == [name for name in order if name != gone]


@given(calls, fleets(), seeds)
def test_a_sort_puts_the_soonest_or_the_cheapest_first(
    call: Call, snapshot: FleetSnapshot, seed: int
) -> None:
    """What a lost spot replica costs is none of the price where the rule says that it is worth
    nothing."""
    for sort in (Sort.LATENCY, Sort.PRICE):
        decided = decide(call, snapshot, matched(Action(sort=sort, spot_loss_nanousd=0)), seed)
        row = [each for each in decided.candidates if each.eligible]
        measured = [
            float(each.cost_nanousd if sort is Sort.PRICE else each.ttft_s or 0) for each in row
        ]
        assert all(a <= b + 1e-6 * b for a, b in pairwise(measured)), (sort, measured)


def halved(price: int | None) -> int | None:
    return None if price is None else price // 2


def alike(call: Call, pool: str, other: str) -> Call:
    """The call, to which another pool is the same: it may be used, and has as much of the
    prompt."""
    known = dict(call.prefix_tokens or {})
    if pool in known:
        known[other] = known[pool]
    return call._replace(leave=replace(call.leave, pools=None), prefix_tokens=known or None)


@pytest.mark.parametrize("sort", [None, *Sort])
@given(calls, fleets(), actions, seeds, places)
def test_a_cheaper_identical_pool_never_loses(
    sort: Sort | None, call: Call, snapshot: FleetSnapshot, action: Action, seed: int, number: int
) -> None:
    action = replace(action, sort=sort)
    states = [each for each in snapshot.pools if each.pool.model in call.models]
    if not states:
        return
    dear = states[number % len(states)]
    cheap = replace(
        dear,
        pool=replace(
            dear.pool,
            name="cheap",
            cost_nanousd_per_s=dear.pool.cost_nanousd_per_s // 2,
            cost_input_nanousd_per_mtok=dear.pool.cost_input_nanousd_per_mtok // 2,
            cost_output_nanousd_per_mtok=dear.pool.cost_output_nanousd_per_mtok // 2,
            cost_cached_input_nanousd_per_mtok=halved(dear.pool.cost_cached_input_nanousd_per_mtok),
        ),
    )
    call = alike(call, dear.pool.name, "cheap")
    of_dear = snapshot.in_flight.get(dear.pool.name, 0)
    both = snapshot._replace(
        pools=(*snapshot.pools, cheap), in_flight={**snapshot.in_flight, "cheap": of_dear}
    )
    action = replace(action, only=None, ignore=frozenset(), order=(), allow_fallbacks=True)
    by_pool = {c.pool: c for c in decide(call, both, matched(action), seed).candidates}
    order = eligible(decide(call, both, matched(action), seed))
    assert by_pool["cheap"].eligible >= by_pool[dear.pool.name].eligible
    assert by_pool["cheap"].cost_nanousd <= by_pool[dear.pool.name].cost_nanousd
    assert by_pool["cheap"].score_nanousd <= by_pool[dear.pool.name].score_nanousd
    if by_pool[dear.pool.name].score_nanousd > by_pool["cheap"].score_nanousd + 1:
        assert dear.pool.name not in order or order.index("cheap") < order.index(dear.pool.name)


@given(calls, fleets(), actions, seeds, places, st.floats(0, 1), st.floats(0, 1))
def test_a_cheaper_or_equal_pool_with_fewer_losses_never_loses(
    call: Call,
    snapshot: FleetSnapshot,
    action: Action,
    seed: int,
    number: int,
    price: float,
    risk: float,
) -> None:
    states = [each for each in snapshot.pools if each.pool.model in call.models]
    if not states:
        return
    spot = states[number % len(states)]
    rate = spot.losses_per_s or 0.001
    risky = replace(
        spot,
        pool=replace(spot.pool, capacity_class=CapacityClass.SPOT),
        losses_per_s=rate,
    )
    safe_pool = replace(
        risky.pool,
        name="safe",
        cost_nanousd_per_s=round(price * risky.pool.cost_nanousd_per_s),
    )
    safe = replace(risky, pool=safe_pool, losses_per_s=risk * rate)
    call = alike(call, spot.pool.name, "safe")
    of_risky = snapshot.in_flight.get(spot.pool.name, 0)
    others = [each for each in snapshot.pools if each is not spot]
    both = snapshot._replace(
        pools=(*others, risky, safe), in_flight={**snapshot.in_flight, "safe": of_risky}
    )
    action = replace(action, only=None, ignore=frozenset(), order=(), allow_fallbacks=True)
    decided = decide(call, both, matched(action), seed)
    by_pool = {each.pool: each for each in decided.candidates}
    order = eligible(decided)
    assert by_pool["safe"].eligible >= by_pool[spot.pool.name].eligible
    assert by_pool["safe"].score_nanousd <= by_pool[spot.pool.name].score_nanousd
    if by_pool[spot.pool.name].score_nanousd > by_pool["safe"].score_nanousd + 1:
        assert spot.pool.name not in order or order.index("safe") < order.index(spot.pool.name)


def busier(state: PoolState) -> PoolState:
    replicas = tuple(replace(each, running=each.running + 9) for each in state.replicas)
    return replace(state, replicas=replicas, waiting=state.waiting + 9)


def dearer(state: PoolState) -> PoolState:
    pool = state.pool
    return replace(
        state,
        pool=replace(
            pool,
            cost_nanousd_per_s=2 * pool.cost_nanousd_per_s + 1,
            cost_input_nanousd_per_mtok=2 * pool.cost_input_nanousd_per_mtok + 1,
            cost_output_nanousd_per_mtok=2 * pool.cost_output_nanousd_per_mtok + 1,
        ),
    )


def slower(state: PoolState) -> PoolState:
    """To start, to begin and to go on."""
    ready_at_s = None if state.ready_at_s is None else state.ready_at_s + 9
    pool = replace(state.pool, cold_start_s=state.pool.cold_start_s + 9)
    was = state.speeds
    learned = was._replace(
        first_fixed_s=was.first_fixed_s + 1,
        first_s_per_token=2 * was.first_s_per_token,
        step_s=2 * was.step_s,
        busy_s_per_token=2 * was.busy_s_per_token,
        busy_s_per_prompt_token=2 * was.prompt_busy_s,
    )
    kept = learned if state.learned else None
    begun = any(each.state is ReplicaState.STARTING for each in state.replicas)
    return replace(state, pool=state.pool if begun else pool, ready_at_s=ready_at_s, learned=kept)


def riskier(state: PoolState) -> PoolState:
    known = state.losses_per_s
    return replace(state, losses_per_s=None if known is None else 2 * known + 0.001)


@pytest.mark.parametrize("worse", [busier, dearer, slower, riskier])
@given(calls, fleets(), actions, seeds, places)
def test_more_waiting_price_or_load_never_helps_a_candidate(
    worse: Any, call: Call, snapshot: FleetSnapshot, action: Action, seed: int, number: int
) -> None:
    if not snapshot.pools:
        return
    number %= len(snapshot.pools)
    action = replace(action, allow_fallbacks=True)
    name = snapshot.pools[number].pool.name
    worsened = with_state(snapshot, number, worse(snapshot.pools[number]))
    good, bad = (decide(call, each, matched(action), seed) for each in (snapshot, worsened))
    scores = [{c.pool: c.score_nanousd for c in each.candidates} for each in (good, bad)]
    assert scores[0].get(name, 0) <= scores[1].get(name, 0)
    before, after = eligible(good), eligible(bad)
    assert name in before or name not in after
    if name in after:
        assert {*before[: before.index(name)]} <= {*after[: after.index(name)]}


@given(calls, fleets(), actions, seeds, places, st.integers(1, 700))
def test_knowing_more_of_the_prompt_never_hurts_a_candidate(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int, number: int, more: int
) -> None:
    action = replace(action, allow_fallbacks=True)
    name = POOLS[number]
    known = call.prefix_tokens or {}
    knowing = call._replace(prefix_tokens={**known, name: known.get(name, 0) + more})
    before = eligible(decide(call, snapshot, matched(action), seed))
    after = eligible(decide(knowing, snapshot, matched(action), seed))
    if name in before:
        assert {*after[: after.index(name)]} <= {*before[: before.index(name)]}


@given(calls, fleets(), actions, seeds, st.floats(0, 500))
def test_more_time_and_a_shorter_prompt_never_rule_a_pool_out(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int, more_s: float
) -> None:
    action = replace(action, allow_fallbacks=True)
    before = {*eligible(decide(call, snapshot, matched(action), seed))}
    longer = call._replace(deadline_s=call.deadline_s + more_s)
    assert before <= {*eligible(decide(longer, snapshot, matched(action), seed))}
    shorter = call._replace(prompt_tokens=dict.fromkeys(call.prompt_tokens, 1), output_tokens_max=1)
    if action.max_price == PriceBound():
        assert before <= {*eligible(decide(shorter, snapshot, matched(action), seed))}


@given(calls, fleets(), actions, seeds)
def test_a_refusal_names_a_kind_that_some_candidate_has(
    call: Call, snapshot: FleetSnapshot, action: Action, seed: int
) -> None:
    decided = decide(call, snapshot, matched(action), seed)
    if isinstance(decided, Decision):
        return
    if not decided.candidates:
        assert decided.kind is RefusalKind.NO_POOL
    elif decided.kind is RefusalKind.POLICY:
        assert "'a-rule'" in decided.message and decided.candidates[0].pool
    else:
        assert any(each.reason in decided.message for each in decided.candidates)
    assert (decided.soonest_pool is None) == (decided.kind is not RefusalKind.DEADLINE)
