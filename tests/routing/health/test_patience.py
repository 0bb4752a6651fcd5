"""What is usual of a pool bounds how long it is waited for: more for a slower one, more for a tier
that is in less of a hurry, and never more than the default."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.health.patience import (
    CONNECTION,
    DOCUMENT_TOKEN_S,
    FIRST_TOKEN,
    SILENCE,
    Bound,
    connection_bound_s,
    first_token_bound_s,
    silence_bound_s,
)
from routing.speeds import Speeds
from routing.types import PoolState, Task, Tier
from tests.routing.fleets import call, external, state

POOL = external(model="m")
IN_A_HURRY = (Tier.PRIORITY, Tier.DEFAULT, Tier.FLEX)
"""The most of it first."""
SECONDS = st.floats(0, 30)
FACTORS = st.floats(0.1, 5)
DEFAULTS = st.floats(0.1, 120)
PROMPTS = st.integers(1, 100_000)
TIERS = st.sampled_from(IN_A_HURRY)
PER_TOKEN_S = 0.001


def known(first_s: float, p99: float = 1.0, step_s: float | None = None) -> PoolState:
    factors = (0.2 * p99, 0.5 * p99, 0.8 * p99, p99, p99)
    speeds = Speeds(first_s, PER_TOKEN_S, 0.01, 0.001, factors, step_s_most=step_s)
    return state(POOL, learned=speeds)


def first_token(tier: Tier, there: PoolState | None, default_s: float, prompt: int = 9) -> float:
    return first_token_bound_s(call("m", tier=tier, prompt_tokens={"m": prompt}), there, default_s)


Bounds = Callable[[Tier, PoolState | None, float], float]
EACH = pytest.mark.parametrize("bound_s", [connection_bound_s, first_token, silence_bound_s])
TABLES = pytest.mark.parametrize("table", [CONNECTION, FIRST_TOKEN, SILENCE])


@EACH
@given(TIERS, SECONDS, SECONDS, FACTORS, FACTORS, DEFAULTS)
def test_a_slower_pool_is_waited_for_no_less_and_none_longer_than_the_default(
    bound_s: Bounds,
    tier: Tier,
    one_s: float,
    other_s: float,
    one_p99: float,
    other_p99: float,
    default_s: float,
) -> None:
    (quick_s, slow_s), (low, high) = sorted((one_s, other_s)), sorted((one_p99, other_p99))
    quick = bound_s(tier, known(quick_s, low, step_s=quick_s), default_s)
    slow = bound_s(tier, known(slow_s, high, step_s=slow_s), default_s)
    assert 0 < quick <= slow <= default_s


@EACH
@given(SECONDS, FACTORS, SECONDS, DEFAULTS)
def test_a_tier_in_less_of_a_hurry_waits_no_less(
    bound_s: Bounds, first_s: float, p99: float, step_s: float, default_s: float
) -> None:
    there = known(first_s, p99, step_s)
    waits = [bound_s(tier, there, default_s) for tier in IN_A_HURRY]
    assert waits == sorted(waits)


@EACH
@given(TIERS, DEFAULTS)
def test_a_pool_that_nothing_is_known_of_has_the_default(
    bound_s: Bounds, tier: Tier, default_s: float
) -> None:
    for there in (None, state(POOL)):
        assert bound_s(tier, there, default_s) == default_s
    assert silence_bound_s(tier, known(1.0), default_s) == default_s, "no answer was measured"


@TABLES
def test_each_tier_has_a_bound_in_the_order_of_their_hurry(table: dict[Tier, Bound]) -> None:
    assert set(table) == set(Tier)
    for sooner, later in pairwise(table[tier] for tier in IN_A_HURRY):
        assert sooner.times < later.times and sooner.floor_s < later.floor_s


@given(TIERS, SECONDS, FACTORS, PROMPTS, DEFAULTS)
def test_a_first_token_is_waited_for_so_many_times_its_99th_percentile(
    tier: Tier, first_s: float, p99: float, prompt: int, default_s: float
) -> None:
    bound_s = first_token(tier, known(first_s, p99), default_s, prompt)
    times, floor_s = FIRST_TOKEN[tier]
    usual_s = times * p99 * (first_s + PER_TOKEN_S * prompt)
    assert min(floor_s, default_s) <= bound_s <= default_s
    if floor_s < usual_s < default_s:
        assert bound_s == pytest.approx(usual_s)


@given(TIERS, SECONDS, DEFAULTS)
def test_vectors_and_slow_documents_have_the_default(
    tier: Tier, first_s: float, default_s: float
) -> None:
    vectors = call("m", tier=tier, task=Task.EMBED)
    assert first_token_bound_s(vectors, known(first_s), default_s) == default_s
    answer = call("m", tier=tier, prompt_tokens={"m": 9})
    for step_s in (None, 2 * DOCUMENT_TOKEN_S):
        there = known(first_s, step_s=step_s)
        assert first_token_bound_s(answer, there, default_s, is_whole=True) == default_s
    quick = known(first_s, step_s=DOCUMENT_TOKEN_S / 2)
    assert first_token_bound_s(answer, quick, default_s, is_whole=True) == first_token_bound_s(
        answer, quick, default_s
    )
