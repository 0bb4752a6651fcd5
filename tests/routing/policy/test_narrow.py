"""Narrowing: what a caller prefers is a part of what the operator allows, never more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.policy.action import NO_BOUND, Action, PriceBound, Target, TargetKind
from routing.policy.narrow import Preferences, narrow, target

PROVIDER_OF = {"a": "x", "b": "x", "c": "y"}
POOLS = ("a", "b", "c", "d")
TARGETS = st.frozensets(
    st.one_of(
        st.sampled_from(POOLS).map(lambda n: Target(TargetKind.POOL, n)),
        st.sampled_from(["x", "y"]).map(lambda n: Target(TargetKind.PROVIDER, n)),
    )
)
QUANTIZATIONS = st.none() | st.frozensets(st.sampled_from(["fp8", "int4"]))
BOUND = st.none() | st.integers(0, 100)
PRICES = st.builds(PriceBound, BOUND, BOUND)
WORDS = {
    "only": st.none() | TARGETS,
    "ignore": TARGETS,
    "allow_fallbacks": st.booleans(),
    "quantizations": QUANTIZATIONS,
    "data_collection_allowed": st.booleans(),
}
ACTIONS = st.builds(Action, max_price=PRICES, **WORDS)  # type: ignore[arg-type]
WISHES = st.builds(Preferences, **WORDS)  # type: ignore[arg-type]


def takes(words: Action | Preferences, pool: str, price: int, weights: str, keeps: bool) -> bool:
    names = {Target(TargetKind.POOL, pool)}
    if pool in PROVIDER_OF:
        names.add(Target(TargetKind.PROVIDER, PROVIDER_OF[pool]))
    most = words.max_price if isinstance(words, Action) else NO_BOUND
    bounds = (most.input_nanousd_per_mtok, most.output_nanousd_per_mtok)
    return (
        (words.only is None or bool(words.only & names))
        and not words.ignore & names
        and all(bound is None or price <= bound for bound in bounds)
        and (words.quantizations is None or weights in words.quantizations)
        and (words.data_collection_allowed or not keeps)
    )


@given(
    ACTIONS,
    WISHES,
    st.sampled_from(POOLS),
    st.integers(0, 100),
    st.sampled_from(["fp8", "int4", "bf16"]),
    st.booleans(),
)
def test_a_narrowed_action_takes_a_pool_where_operator_and_caller_both_do(
    action: Action, wish: Preferences, pool: str, price: int, weights: str, keeps: bool
) -> None:
    narrowed = narrow(action, wish, PROVIDER_OF)
    facts = (pool, price, weights, keeps)
    assert takes(narrowed, *facts) == (takes(action, *facts) and takes(wish, *facts))
    assert action.allow_fallbacks or not narrowed.allow_fallbacks


@given(ACTIONS)
def test_no_preference_changes_nothing(action: Action) -> None:
    assert narrow(action, Preferences(), PROVIDER_OF) == action


def test_a_name_without_a_prefix_is_a_pool() -> None:
    assert target("warm") == target("pool:warm") == Target(TargetKind.POOL, "warm")
    for wrong in ("", "pool:", "region:eu"):
        with pytest.raises(ValueError, match="neither"):
            target(wrong)
