"""Which prices a call may end on, and what is held by them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from billing.prices.book import Component, PriceRate, PriceVersion, make_book
from billing.prices.rating import dearest, rate
from billing.prices.tariff import Prices
from gateway.call.open_call import Quote, granted_at_first
from gateway.pipeline import Pipeline
from routing.policy.action import Action, Matched
from routing.types import Call, CapacityClass, Decision, Tier

CALL = Call(
    request_id="req_1",
    organization="org_1",
    project="proj_1",
    key="key_1",
    model_requested="auto",
    models=("large", "small"),
    tier=Tier.DEFAULT,
    stream=False,
    prompt_tokens={"large": 10, "small": 12},
    output_tokens_max=64,
    arrived_s=1.0,
    deadline_s=2.0,
)
TIERS = {"default": 2, "priority": 5, "flex": 1}
BOOK = make_book(
    [
        PriceVersion(
            "pv_1",
            0,
            None,
            tuple(
                PriceRate(model=model, tier=tier, component=component, nanousd_per_mtok=n * 10**9)
                for model in ("large", "small")
                for tier, n in TIERS.items()
                for component in (Component.INPUT, Component.OUTPUT)
            ),
        )
    ]
)


def test_price_is_that_of_the_tier_of_the_call() -> None:
    matched = Matched("rule", 1, Action())
    pipeline = cast(
        Any,
        SimpleNamespace(
            _catalog=SimpleNamespace(prices=BOOK), _models_left=lambda call, _: call.models
        ),
    )
    for tier, price in TIERS.items():
        _, quote = Pipeline.price(pipeline, CALL._replace(tier=Tier(tier)), matched)
        assert {prices.output for prices in quote.prices.values()} == {price * 10**9}
        assert {prices.tier for prices in quote.prices.values()} == {tier}


prices = st.builds(
    Prices,
    version_id=st.just("pv_1"),
    model=st.just("m"),
    tier=st.just("default"),
    batch=st.just(False),
    input=st.integers(0, 10**13),
    cached_input=st.integers(0, 10**13),
    output=st.integers(0, 10**13),
)


@given(prices, prices, st.integers(0, 5_000))
def test_hold_covers_whichever_model_the_call_ends_on(
    large: Prices, small: Prices, output_tokens: int
) -> None:
    quote = Quote("pv_1", {"large": large, "small": small})
    held = quote.hold_nanousd(CALL, output_tokens)
    for model, each in quote.prices.items():
        most = rate(dearest(CALL.prompt_tokens[model], output_tokens, each), each)
        assert held >= most.amount_nanousd


def test_all_output_is_held_at_once_where_a_server_outside_is_asked() -> None:
    for capacity_class in CapacityClass:
        candidate = cast(Any, SimpleNamespace(capacity_class=capacity_class))
        granted = granted_at_first(
            CALL, Decision(Matched("rule", 1, Action()), 0, (candidate,)), slice_tokens=16
        )
        assert granted == (64 if capacity_class is CapacityClass.EXTERNAL else 16)
