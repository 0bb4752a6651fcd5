"""A priority call waits for a first token as long as is usual, and never longer than others do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.health.patience import FLOOR_S, TIMES, first_token_bound_s
from routing.speeds import Speeds
from routing.types import Task, Tier
from tests.routing.fleets import call, external, state

POOL = external(model="m")
SECONDS = st.floats(0, 30)
DEFAULTS = st.floats(0.1, 120)
PROMPTS = st.integers(1, 100_000)


def known(first_s: float, per_token_s: float, p99: float) -> Speeds:
    return Speeds(first_s, per_token_s, 0.01, 0.001, (0.2 * p99, 0.5 * p99, 0.8 * p99, p99, p99))


@given(SECONDS, st.floats(0, 0.01), st.floats(0.1, 5), PROMPTS, DEFAULTS)
def test_priority_calls_wait_thrice_the_99th_percentile_between_the_floor_and_the_default(
    first_s: float, per_token_s: float, p99: float, prompt: int, default_s: float
) -> None:
    there = state(POOL, learned=known(first_s, per_token_s, p99))
    ours = call("m", tier=Tier.PRIORITY, prompt_tokens={"m": prompt})
    bound_s = first_token_bound_s(ours, there, default_s)
    assert min(FLOOR_S, default_s) <= bound_s <= default_s
    usual_s = TIMES * p99 * (first_s + per_token_s * ours.likely_prompt_tokens("m"))
    if FLOOR_S < usual_s < default_s:
        assert abs(bound_s - usual_s) < 1e-6 * usual_s


@given(SECONDS, st.floats(0.1, 5), DEFAULTS, st.sampled_from([Tier.DEFAULT, Tier.FLEX]))
def test_all_others_and_whatever_nothing_is_known_of_have_the_default(
    first_s: float, p99: float, default_s: float, tier: Tier
) -> None:
    there = state(POOL, learned=known(first_s, 0.001, p99))
    assert first_token_bound_s(call("m", tier=tier), there, default_s) == default_s
    ours = call("m", tier=Tier.PRIORITY)
    vectors = call("m", tier=Tier.PRIORITY, task=Task.EMBED)
    for of, at in ((ours, state(POOL)), (ours, None), (vectors, there)):
        assert first_token_bound_s(of, at, default_s) == default_s


@given(SECONDS, SECONDS, st.floats(0.1, 5), PROMPTS, DEFAULTS)
def test_a_slower_pool_is_waited_for_no_less(
    one_s: float, other_s: float, p99: float, prompt: int, default_s: float
) -> None:
    ours = call("m", tier=Tier.PRIORITY, prompt_tokens={"m": prompt})
    quick, slow = (
        first_token_bound_s(ours, state(POOL, learned=known(each, 0.001, p99)), default_s)
        for each in sorted((one_s, other_s))
    )
    assert quick <= slow
