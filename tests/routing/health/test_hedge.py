"""A second attempt comes late enough, goes elsewhere, and is one of few."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from routing.health.hedge import SAVED_MAX, WAIT_MIN_S, HedgeBudget, beside, hedge_after_s
from routing.policy.action import Hedge
from routing.speeds import Speeds
from routing.types import Candidate, CapacityClass, Task, Tier
from tests.routing.fleets import call, pool, state

POOL = pool(model="m")
SECONDS = st.floats(0, 30)
PROMPTS = st.integers(1, 100_000)


def known(first_s: float, per_token_s: float, median: float, p95: float) -> Speeds:
    factors = (0.5 * median, median, (median + p95) / 2, p95, 2 * p95)
    return Speeds(first_s, per_token_s, 0.01, 0.001, factors)


def candidate(pool: str, model: str) -> Candidate:
    served = CapacityClass.RESERVED
    return Candidate(pool, model, "v", served, Tier.PRIORITY, True, 0, 0, 0.0, "warm")


@given(
    calls=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), max_size=200),
)
def test_no_sequence_of_calls_has_more_second_attempts_than_its_share(
    calls: list[tuple[float, int]],
) -> None:
    """Whatever share each call has, and however often it is wanted."""
    budget, granted, shares = HedgeBudget(), 0, 0.0
    for share, wanted in calls:
        budget.called(share)
        shares += share
        granted += sum(budget.take() for _ in range(wanted))
        assert granted <= shares + 1e-9


def test_few_are_saved_up_for_an_outage() -> None:
    budget = HedgeBudget()
    for _ in range(10_000):
        budget.called(0.03)
    assert sum(budget.take() for _ in range(10_000)) == SAVED_MAX


@given(SECONDS, st.floats(0, 0.001), st.floats(0.1, 3), st.floats(0, 5), PROMPTS)
def test_it_comes_after_the_95th_percentile_and_twice_the_median_for_this_prompt(
    first_s: float, per_token_s: float, median: float, beyond: float, prompt_tokens: int
) -> None:
    speeds = known(first_s, per_token_s, median, median + beyond)
    wanted = call("m", tier=Tier.PRIORITY, prompt_tokens={"m": prompt_tokens})
    after_s = hedge_after_s(Hedge(), wanted, state(POOL, learned=speeds))
    expected_s = first_s + per_token_s * prompt_tokens
    assert after_s is not None and after_s >= WAIT_MIN_S
    assert after_s >= expected_s * (median + beyond) and after_s >= 2 * expected_s * median


def test_a_longer_prompt_is_waited_for_longer() -> None:
    at = state(POOL, learned=known(0.1, 0.001, 1.0, 2.5))
    waits = [
        hedge_after_s(Hedge(), call("m", tier=Tier.PRIORITY, prompt_tokens={"m": n}), at)
        for n in (100, 10_000)
    ]
    assert waits == [(0.1 + 0.1) * 2.5, (0.1 + 10.0) * 2.5]


def test_only_priority_calls_that_generate_have_one() -> None:
    at = state(POOL, learned=known(0.1, 0.001, 1.0, 2.5))
    mine = Hedge(after_s=1.0)
    for tier in (Tier.DEFAULT, Tier.FLEX):
        assert hedge_after_s(mine, call("m", tier=tier), at) is None
    assert hedge_after_s(mine, call("m", tier=Tier.PRIORITY, task=Task.EMBED), at) is None
    assert hedge_after_s(replace(mine, share=0.0), call("m", tier=Tier.PRIORITY), at) is None
    assert hedge_after_s(mine, call("m", tier=Tier.PRIORITY), at) == 1.0


def test_without_a_history_only_the_operator_says_when() -> None:
    wanted, unknown = call("m", tier=Tier.PRIORITY), state(POOL)
    assert hedge_after_s(Hedge(), wanted, unknown) is None
    assert hedge_after_s(Hedge(), wanted, None) is None
    assert hedge_after_s(Hedge(after_s=0.8), wanted, unknown) == 0.8


def test_it_goes_to_the_same_model_in_another_pool() -> None:
    taken = candidate("a", "m")
    others = [taken, candidate("b", "n"), candidate("c", "m"), candidate("a", "m")]
    assert [each.pool for each in beside(others, taken)] == ["c"]
