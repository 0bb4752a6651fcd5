"""A decision to wait is kept, and left only for what now scores better."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given
from hypothesis import strategies as st

from routing.decide import decide
from routing.types import Call, FleetSnapshot, ReplicaState, Tier
from routing.waiting import better_than_waiting
from tests.routing.fleets import (
    NOW_S,
    any_call,
    any_fleet,
    call,
    fleet,
    matched,
    pool,
    replica,
    state,
    warm,
)

seeds = st.integers()


def better(wanted: Call, snapshot: FleetSnapshot, waits_for: str, seed: int = 1) -> list[str]:
    found = better_than_waiting(wanted, snapshot, matched(tier=wanted.tier), seed, waits_for)
    return [each.pool for each in found]


@given(any_call(), any_fleet(), seeds, seeds)
def test_whoever_decided_to_wait_stays_as_long_as_nothing_changes(
    wanted: Call, snapshot: FleetSnapshot, seed: int, later: int
) -> None:
    decided = decide(wanted, snapshot, matched(tier=wanted.tier), seed)
    assume(decided.candidates and decided.candidates[0].eligible)
    assert better(wanted, snapshot, decided.candidates[0].pool, later) == []


@given(any_call(), any_fleet(), seeds, st.integers(0, 5))
def test_only_what_the_rule_puts_first_is_better_than_waiting(
    wanted: Call, snapshot: FleetSnapshot, seed: int, number: int
) -> None:
    """Order and score: what stands before the pool, but for ties."""
    waits_for = f"pool-{number}"
    candidates = decide(wanted, snapshot, matched(tier=wanted.tier), seed).candidates
    eligible = [each.pool for each in candidates if each.eligible]
    scores = {each.pool: each.score_nanousd for each in candidates}
    found = better(wanted, snapshot, waits_for, seed)
    if waits_for not in eligible:
        assert found == eligible
        return
    before = eligible[: eligible.index(waits_for)]
    assert set(found) <= set(before)
    assert all(scores[name] == scores[waits_for] for name in set(before) - set(found))


@given(any_call(), any_fleet(), st.floats(0, 1000), st.integers(0, 5))
def test_what_was_waited_already_counts_for_nothing(
    wanted: Call, snapshot: FleetSnapshot, waited_s: float, number: int
) -> None:
    since_long = wanted._replace(arrived_s=wanted.arrived_s - waited_s)
    waits_for = f"pool-{number}"
    assert better(since_long, snapshot, waits_for) == better(wanted, snapshot, waits_for)


DEAR = warm(pool("dear", cost_nanousd_per_s=90_000))
CHEAP = pool("cheap", cost_nanousd_per_s=100, cold_start_s=5.0)
FLEX = call(tier=Tier.FLEX, deadline_s=NOW_S + 600)


def test_flex_stays_with_its_cheap_pool_until_it_is_ready() -> None:
    starting = replica(state=ReplicaState.STARTING, since_ms=round(NOW_S * 1000))
    for passed_s in (0.0, 1.0, 4.0, 5.0, 6.0):
        snapshot = fleet(DEAR, state(CHEAP, starting))._replace(at_s=NOW_S + passed_s)
        assert better(FLEX, snapshot, "cheap") == []


def test_a_start_that_does_not_end_is_given_up_for_the_dear_pool() -> None:
    starting = replica(state=ReplicaState.STARTING, since_ms=round(NOW_S * 1000))
    snapshot = fleet(DEAR, state(CHEAP, starting))._replace(at_s=NOW_S + 60.0)
    assert better(FLEX, snapshot, "cheap") == ["dear"]


def test_a_pool_that_cannot_start_or_is_gone_is_left_for_any_other() -> None:
    blocked = replace(state(CHEAP), blocked_reason="2 failed starts")
    assert better(FLEX, fleet(DEAR, blocked), "cheap") == ["dear"]
    assert better(FLEX, fleet(DEAR), "cheap") == ["dear"]


def test_priority_leaves_for_whatever_becomes_warm() -> None:
    wanted = call(tier=Tier.PRIORITY)
    assert better(wanted, fleet(state(CHEAP), state(DEAR.pool)), "cheap") == []
    assert better(wanted, fleet(state(CHEAP), DEAR), "cheap") == ["dear"]
