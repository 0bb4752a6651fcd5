"""Which replica of a pool takes a call."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from routing.replicas import choose_replica
from routing.types import PoolState, ReplicaState
from tests.routing.fleets import any_pool_state, pool, replica, state

seeds = st.integers()


@given(any_pool_state("p"), seeds, st.data())
def test_only_warm_replicas_that_are_not_excluded_are_chosen(
    of: PoolState, seed: int, data: st.DataObject
) -> None:
    ids = [r.id for r in of.replicas]
    excluded = data.draw(st.lists(st.sampled_from(ids))) if ids else []
    found = choose_replica(of, Random(seed), excluded)
    able = [r for r in of.replicas if r.state is ReplicaState.WARM and r.id not in excluded]
    assert (found in able) if able else (found is None)


@given(any_pool_state("p"), seeds)
def test_same_seed_chooses_the_same_replica(of: PoolState, seed: int) -> None:
    assert choose_replica(of, Random(seed)) == choose_replica(of, Random(seed))


@given(st.lists(st.integers(0, 50), min_size=2, max_size=2, unique=True), seeds)
def test_the_less_loaded_of_two_is_chosen(loads: list[int], seed: int) -> None:
    pair = [replica(f"r{load}", running=load) for load in loads]
    found = choose_replica(state(pool(), *pair), Random(seed))
    assert found is not None and found.running == min(loads)


@given(st.lists(st.integers(0, 50), min_size=3, max_size=8, unique=True), seeds)
def test_the_most_loaded_of_many_is_never_chosen(loads: list[int], seed: int) -> None:
    many = [replica(f"r{load}", running=load) for load in loads]
    found = choose_replica(state(pool(), *many), Random(seed))
    assert found is not None and found.running != max(loads)


def test_our_own_open_attempts_count_before_the_replica_reports_them() -> None:
    of = state(pool(), replica("busy"), replica("idle"), in_flight={"busy": 3})
    assert {choose_replica(of, Random(s)).id for s in range(10)} == {"idle"}  # type: ignore[union-attr]


def test_equal_replicas_share_the_load() -> None:
    of = state(pool(), replica("a"), replica("b"))
    assert {choose_replica(of, Random(s)).id for s in range(20)} == {"a", "b"}  # type: ignore[union-attr]
