"""Cost and waiting, in figures that can be checked by hand."""

from __future__ import annotations

from hypothesis import given

from routing import cost
from routing.types import Call, FleetSnapshot, ReplicaState, Task
from tests.routing.fleets import NOW_S, any_call, any_fleet, call, external, pool, replica, state


def test_one_call_alone_takes_its_prefill_and_one_step_a_token() -> None:
    of = pool(prefill_tokens_per_s=4000.0, decode_tokens_per_s=100.0)
    assert cost.service_s(of, 400, 50) == 0.1 + 0.5


def test_own_call_costs_its_share_of_the_busy_time() -> None:
    of = pool(prefill_tokens_per_s=4000.0, decode_tokens_per_s=100.0, max_ongoing=4)
    assert cost.run_cost_nanousd(of, 400, 50) == round(0.6 * 20_000 / 4)


def test_external_call_costs_its_tokens() -> None:
    """1000 in at 1 USD, 500 out at 4 USD a million tokens: 0.003 USD."""
    assert cost.run_cost_nanousd(external(), 1000, 500) == 3_000_000


def test_starting_a_replica_costs_its_cold_start() -> None:
    assert cost.start_cost_nanousd(state(pool(cold_start_s=8.0))) == 160_000


def test_a_start_that_is_under_way_is_paid_for_already() -> None:
    begun = state(pool(), replica(state=ReplicaState.STARTING))
    assert cost.start_cost_nanousd(begun) == 0
    assert cost.start_cost_nanousd(state(external())) == 0


def test_free_slot_means_no_waiting_and_a_full_pool_one_mean_service_a_round() -> None:
    of = pool(max_ongoing=4)
    assert cost.wait_s(state(of, replica(running=3)), call(), NOW_S) == 0
    full = state(of, replica(running=4, queued=3))
    expected = cost.service_s(of, 20, 50)
    assert cost.wait_s(full, call(), NOW_S) == expected  # 8 calls for 4 slots: one round


def test_own_open_attempts_fill_slots_before_they_are_reported() -> None:
    of = state(pool(max_ongoing=4), replica("r1"), in_flight={"r1": 8})
    assert cost.wait_s(of, call(), NOW_S) > 0


def test_start_that_takes_longer_than_expected_is_still_awaited() -> None:
    late = replica(state=ReplicaState.STARTING, since_ms=round((NOW_S - 60) * 1000))
    assert cost.wait_s(state(pool(), late), call(), NOW_S) == 0.5


@given(any_call(), any_fleet())
def test_waiting_and_costs_are_never_negative(wanted: Call, snapshot: FleetSnapshot) -> None:
    for of in snapshot.pools:
        assert cost.wait_s(of, wanted, snapshot.at_s) >= 0
        assert cost.start_cost_nanousd(of) >= 0
        assert cost.run_cost_nanousd(of.pool, 20, 100) >= 0


def test_a_replica_that_drains_has_to_be_started_again() -> None:
    leaving = state(pool(cold_start_s=8.0), replica(state=ReplicaState.DRAINING))
    assert cost.start_cost_nanousd(leaving) == 160_000


def test_half_of_what_may_be_generated_is_expected_and_nothing_of_vectors() -> None:
    assert cost.expected_output_tokens(call(output_tokens_max=7)) == 4
    assert cost.expected_output_tokens(call(output_tokens_max=0, task=Task.EMBED)) == 0
