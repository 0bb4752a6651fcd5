"""Pools of warm replicas to choose from: any at all by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from routing.gauges import Gauges
from routing.replicas.choice import Demand, Option
from routing.replicas.work import Work
from routing.types import PoolState
from tests.routing.fleets import pool, replica, state

SLOTS = 16

counts = st.integers(0, 5_000)
works = st.builds(Work, st.integers(0, 2 * SLOTS), counts, counts, counts)
demands = st.builds(Demand, st.integers(1, 4_000), st.integers(1, 2_000))
seeds = st.integers()
some_gauges = st.none() | st.builds(Gauges, counts, st.just(65_536), counts, counts, counts)


@st.composite
def options(draw: st.DrawFn, *, least: int = 1, most: int = 9, cached: bool = True) -> list[Option]:
    """Replicas with any work outstanding, and any part of the prompt in their caches."""
    number = draw(st.integers(least, most))
    tokens = st.integers(0, 4_000) if cached else st.just(0)
    return [
        Option(replica(f"r{n}", gauges=draw(some_gauges)), draw(works), draw(tokens))
        for n in range(number)
    ]


def state_of(found: list[Option], *, is_stale: bool = False) -> PoolState:
    of = pool(max_ongoing=SLOTS)
    return state(of, *(option.replica for option in found), is_stale=is_stale)
