"""When a call that found no place may come again: a law over every fleet, and what it means."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.come_again import AGAIN_S_MAX, AGAIN_S_MIN, NOBODY_KNOWS_S, again_s
from routing.cost import wait_s
from routing.types import CapacityClass, PoolState, Replica, ReplicaState
from tests.routing.fleets import NOW_S, call, pool

SECONDS = st.floats(0, 7200)
STATES = st.builds(
    lambda cold_start_s, replicas, waiting, is_blocked: PoolState(
        pool=pool(cold_start_s=cold_start_s),
        replicas=tuple(replicas),
        waiting=waiting,
        blocked_reason="2 failed starts" if is_blocked else None,
    ),
    SECONDS,
    st.lists(
        st.builds(
            Replica,
            st.sampled_from(["r1", "r2", "r3"]),
            st.just("http://127.0.0.1:9"),
            st.sampled_from(ReplicaState),
            st.just(round(NOW_S * 1000)),
            st.integers(0, 9),
            st.integers(0, 9),
        ),
        max_size=3,
    ),
    st.integers(0, 10_000),
    st.booleans(),
)
AVOIDED = st.dictionaries(st.sampled_from(["r1", "r2", "r3"]), SECONDS.map(lambda s: NOW_S + s))


@given(st.lists(STATES | st.none(), max_size=3), AVOIDED)
def test_g41_wait_is_bounded_and_no_pool_more_makes_it_longer(
    states: list[PoolState | None], avoided: dict[str, float]
) -> None:
    found = again_s(call(), states, avoided, NOW_S)
    assert AGAIN_S_MIN <= found <= AGAIN_S_MAX
    alone = [again_s(call(), [state], avoided, NOW_S) for state in states]
    known = [
        told
        for told, s in zip(alone, states, strict=True)
        if s is not None and (s.replicas or not s.blocked_reason)
    ]
    assert found == min(known, default=NOBODY_KNOWS_S), "the soonest of those that can"


@given(STATES.filter(lambda state: bool(state.replicas) or not state.blocked_reason))
def test_g41_nobody_is_told_to_come_before_the_pool_can_begin(state: PoolState) -> None:
    assert again_s(call(), [state], {}, NOW_S) >= min(wait_s(state, call(), NOW_S), AGAIN_S_MAX)


def warm(*names: str, running: int = 0) -> PoolState:
    replicas = [Replica(n, "http://127.0.0.1:9", ReplicaState.WARM, 0, running, 0) for n in names]
    return PoolState(pool=pool(max_ongoing=4), replicas=tuple(replicas), waiting=0)


def outside() -> PoolState:
    changes: dict[str, Any] = {"capacity_class": CapacityClass.EXTERNAL, "base_url": "http://x/v1"}
    return PoolState(pool=pool(name="out", **changes), replicas=(), waiting=0)


@pytest.mark.parametrize(
    ("state", "avoided", "expected_s"),
    [
        (warm("r1", "r2"), {"r1": NOW_S + 2}, AGAIN_S_MIN),
        (warm("r1", "r2"), {"r1": NOW_S + 2, "r2": NOW_S + 7}, 2.0),
        (outside(), {"external:out": NOW_S + 3}, 3.0),
    ],
    ids=["another is there", "the one whose pause ends first", "a server outside"],
)
def test_g41_what_was_tried_in_vain_is_asked_again_after_its_pause(
    state: PoolState, avoided: dict[str, float], expected_s: float
) -> None:
    assert again_s(call(), [state], avoided, NOW_S) == pytest.approx(expected_s, abs=1e-6)


def test_g41_the_longer_the_queue_the_longer_the_wait() -> None:
    waits = [again_s(call(), [warm("r1", running=n)], {}, NOW_S) for n in (4, 40, 400)]
    assert waits == sorted(waits) and waits[2] > 5 * waits[1] > 0
