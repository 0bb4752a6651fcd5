"""Cost and waiting, in figures that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing import cost
from routing.decide import decide
from routing.policy.action import Action, PriceBound
from routing.speeds import Speeds
from routing.types import (
    Call,
    Candidate,
    CapacityClass,
    FleetSnapshot,
    PoolState,
    ReplicaState,
    Task,
)
from tests.routing.fleets import (
    NOW_S,
    any_call,
    any_fleet,
    call,
    external,
    fleet,
    matched,
    pool,
    replica,
    state,
)


def run_nanousd(of: PoolState, prompt_tokens: int, output_tokens: int) -> float:
    terms = cost.terms_of(of)
    return prompt_tokens * terms.prompt_nanousd + output_tokens * terms.output_nanousd


def test_one_call_alone_takes_its_prefill_and_one_step_a_token() -> None:
    assert cost.service_s(cost.terms_of(state(pool())), 400, 50) == 0.1 + 0.5


def test_own_call_costs_its_prompts_time_and_its_share_of_the_steps() -> None:
    of = state(pool(max_ongoing=4))
    assert run_nanousd(of, 400, 50) == pytest.approx((0.1 + 0.5 / 4) * 20_000)


def test_what_was_learned_of_a_pool_counts_in_the_place_of_the_guess() -> None:
    of = state(pool(), learned=Speeds(0.5, 1 / 8000, 1 / 50, 1 / 400))
    assert cost.service_s(cost.terms_of(of), 400, 50) == 0.5 + 0.05 + 1.0
    assert run_nanousd(of, 400, 50) == pytest.approx((0.05 + 0.125) * 20_000)


def test_external_call_costs_its_tokens() -> None:
    """1000 in at 1 USD, 500 out at 4 USD a million tokens: 0.003 USD."""
    assert run_nanousd(state(external()), 1000, 500) == pytest.approx(3_000_000)


def test_the_cost_of_a_start_is_shared_by_the_calls_expected_of_it() -> None:
    assert cost.start_cost_nanousd(state(pool(cold_start_s=8.0), calls_per_start=4.0)) == 40_000


def test_starting_a_replica_costs_its_cold_start() -> None:
    assert cost.start_cost_nanousd(state(pool(cold_start_s=8.0), calls_per_start=1.0)) == 160_000


def test_a_start_that_is_under_way_is_paid_for_already() -> None:
    begun = state(pool(), replica(state=ReplicaState.STARTING))
    assert cost.start_cost_nanousd(begun) == 0
    assert cost.start_cost_nanousd(state(external())) == 0


def test_a_spot_call_costs_its_price_and_what_is_lost_with_its_replica() -> None:
    """20 tokens in and 50 out take 0.505 s and cost 2600 nano-USD. A replica is lost every 100 s:
    so the call loses 0.00505 times 1000 nano-USD, and half of what it costs."""
    spot = pool(capacity_class=CapacityClass.SPOT)
    action = Action(wait_nanousd_per_s=0, quality_nanousd_per_step=0, spot_loss_nanousd=1_000_000)
    known = state(spot, replica(), losses_per_s=0.01)
    for of, lost in ((known, 2600 / 2), (replace(known, losses_per_s=0.0), 0.0)):
        decided = decide(call(), fleet(of), matched(action), 1)
        rate = of.losses_per_s or 0.0
        expected = 2600 + 0.505 * rate * (1_000_000 + lost)
        assert decided.candidates[0].score_nanousd == pytest.approx(expected, abs=1)
        assert decided.candidates[0].cost_nanousd == 2600, "a risk is no cost"


HALF = {"outside": 500, "small-reserved": 500}
"""Of a prompt of a thousand tokens, what is known to be in a cache."""


def only_candidate(of: PoolState, **known: object) -> Candidate:
    action = Action(wait_nanousd_per_s=0, quality_nanousd_per_step=0, spot_loss_nanousd=0)
    wanted = call(prompt_tokens={"small": 1000}, output_tokens_expected=0.0, **known)
    (candidate,) = decide(wanted, fleet(of), matched(action), 1).candidates
    return candidate


@pytest.mark.parametrize(
    ("kept", "cached", "known", "nanousd"),
    [
        (1.0, 0.0, None, 1_000_000),
        (1.0, 0.0, HALF, 500_000 + 50_000),
        (0.6, 0.0, HALF, 700_000 + 30_000),
        (1.0, 0.5, None, 500_000 + 50_000),
        (1.0, 0.5, HALF, 50_000 + 250_000 + 25_000),
    ],
    ids=["nothing", "half is known", "not all is kept", "a share of the others", "both"],
)
def test_what_a_server_outside_has_cached_costs_the_price_of_that(
    kept: float, cached: float, known: dict[str, int] | None, nanousd: int
) -> None:
    """1 USD a million tokens, and 0.1 USD of its cache."""
    of = state(
        external(cost_cached_input_nanousd_per_mtok=100_000_000),
        kept_share=kept,
        cached_share=cached,
    )
    candidate = only_candidate(of, prefix_tokens=known)
    assert candidate.cost_nanousd == candidate.score_nanousd == nanousd


def test_without_a_price_of_its_own_a_cached_token_costs_as_any_other() -> None:
    of = state(external(), cached_share=0.5)
    assert only_candidate(of, prefix_tokens=HALF).cost_nanousd == 1_000_000


def test_a_pool_that_has_half_of_the_prompt_computes_and_takes_half_as_long() -> None:
    of = state(pool(), replica())
    whole, half = only_candidate(of), only_candidate(of, prefix_tokens=HALF)
    assert half.cost_nanousd * 2 == whole.cost_nanousd == 5_000
    assert half.ttft_s is not None and whole.ttft_s == pytest.approx(2 * half.ttft_s)


def test_the_share_that_is_cached_does_not_make_a_pool_cheap_enough_for_a_rule() -> None:
    """What a rule bounds is the list price, which no call of others moves."""
    dear = Action(max_price=PriceBound(input_nanousd_per_mtok=600_000_000))
    of = state(external(cost_cached_input_nanousd_per_mtok=0), cached_share=0.9)
    decided = decide(call(), fleet(of), matched(dear), 1)
    assert not decided.candidates[0].eligible


def test_free_slot_means_no_waiting_and_a_full_pool_one_mean_service_a_round() -> None:
    of = pool(max_ongoing=4)
    assert cost.wait_s(state(of, replica(running=3)), call(), NOW_S) == 0
    full = state(of, replica(running=4, queued=3))
    expected = cost.service_s(cost.terms_of(full), 20, 50)
    assert cost.wait_s(full, call(), NOW_S) == expected  # 8 calls for 4 slots: one round


def test_own_open_attempts_fill_slots_before_they_are_reported() -> None:
    of = state(pool(max_ongoing=4), replica("r1"))
    assert cost.wait_s(of, call(), NOW_S, in_flight=8) > 0 == cost.wait_s(of, call(), NOW_S)


def test_start_that_is_late_is_still_awaited_as_long_again_as_it_is_late() -> None:
    """Else a start that never ends would look for ever as if it ended in half a second."""
    starting = replica(state=ReplicaState.STARTING, since_ms=round(NOW_S * 1000))
    expected = [(6.0, 2.0), (8.0, 0.5), (8.25, 0.5), (10.0, 2.0), (60.0, 52.0)]
    for after_s, left_s in expected:
        state_of = state(pool(cold_start_s=8.0), starting)
        assert cost.wait_s(state_of, call(), NOW_S + after_s) == left_s


@given(ages_s=st.lists(st.floats(0, 120).map(lambda s: round(s, 2)), min_size=1, max_size=4))
def test_of_several_starts_the_one_that_ends_first_is_waited_for(ages_s: list[float]) -> None:
    """One that hangs hides none that is about to end."""
    starts = [
        replica(f"r{n}", state=ReplicaState.STARTING, since_ms=round((NOW_S - age_s) * 1000))
        for n, age_s in enumerate(ages_s)
    ]
    of = pool(cold_start_s=8.0)
    alone = [cost.wait_s(state(of, each), call(), NOW_S) for each in starts]
    assert cost.wait_s(state(of, *starts), call(), NOW_S) == min(alone)


def test_pool_that_lost_its_replicas_is_waited_for_until_it_is_back() -> None:
    """Whatever a start takes: the cluster has to be there first."""
    starting = replica(state=ReplicaState.STARTING, since_ms=round(NOW_S * 1000))
    for lost in (state(pool(cold_start_s=8.0)), state(pool(cold_start_s=8.0), starting)):
        known = replace(lost, ready_at_s=NOW_S + 30.0)
        assert cost.wait_s(known, call(), NOW_S) == 30.0
        assert cost.wait_s(known, call(), NOW_S + 60.0) == 0.5
    again = replace(state(pool(), replica("r1")), ready_at_s=NOW_S + 30.0)
    assert cost.wait_s(again, call(), NOW_S) == 0


@given(any_call(), any_fleet())
def test_waiting_and_costs_are_never_negative(wanted: Call, snapshot: FleetSnapshot) -> None:
    for of in snapshot.pools:
        assert cost.wait_s(of, wanted, snapshot.at_s) >= 0
        assert cost.start_cost_nanousd(of) >= 0
        assert run_nanousd(of, 20, 100) >= 0


def test_a_replica_that_drains_has_to_be_started_again() -> None:
    leaving = state(pool(cold_start_s=8.0), replica(state=ReplicaState.DRAINING))
    assert cost.start_cost_nanousd(leaving) == 20_000


def test_half_of_what_may_be_generated_is_expected_and_nothing_of_vectors() -> None:
    assert cost.expected_output_tokens(call(output_tokens_max=7)) == 4
    assert cost.expected_output_tokens(call(output_tokens_max=0, task=Task.EMBED)) == 0
    assert cost.expected_output_tokens(call(output_tokens_expected=2.5)) == 2.5
