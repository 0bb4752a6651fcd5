"""Which rate of a provider's lists holds, and what changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from billing.costs.attempts import bought_nanousd
from billing.money import usd
from billing.types import Usage
from gateway.call.attempt import OpenAttempt, PromptAlone
from gateway.call.meter import Meter
from gateway.providers.price_list import (
    ListedRate,
    PriceList,
    bought_tier,
    changes,
    dated_costs,
    mistakes,
    of_tier,
    rate_for,
    rates_at,
    read_rates,
)
from tests.routing.fleets import external


def rate(model: str = "m", **fields: object) -> ListedRate:
    plain = {"model": model, "input_usd_per_mtok": "2", "output_usd_per_mtok": "8"}
    return ListedRate.model_validate(plain | fields)


LONG = rate(prompt_from_tokens=1_000, input_usd_per_mtok="4", cached_input_usd_per_mtok="1")
FLEX = rate(tier="flex", input_usd_per_mtok="1")
RATES = (rate(), LONG, FLEX)
IMAGES = rate(image_usd="0.02", images={"1024x1024": "0.04", "1024x1024/high": "0.17"})
AMOUNTS = st.integers(0, 10**9)
COMPONENTS = st.builds(
    lambda amounts, images: rate(
        **{f"{kind}_usd": usd(amount) for kind, amount in amounts.items()},
        images={kind: usd(amount) for kind, amount in images.items()},
    ),
    st.dictionaries(
        st.sampled_from(["search_unit", "image", "second", "character"]), AMOUNTS, max_size=4
    ),
    st.dictionaries(st.sampled_from(["1024x1024", "1024x1024/high", "512x512"]), AMOUNTS),
)
USD = 10**9
LISTS = st.lists(
    st.tuples(st.integers(0, 50), st.sets(st.sampled_from("mn"), min_size=1)), max_size=6
)


@given(LISTS, st.integers(0, 60))
def test_the_last_list_that_has_begun_and_has_the_model_holds(
    made: list[tuple[int, set[str]]], now_us: int
) -> None:
    lists = [
        PriceList(n, start, tuple(rate(model, input_usd_per_mtok=str(n)) for model in models))
        for n, (start, models) in enumerate(made, 1)
    ]
    begun = [each for each in lists if each.starts_us <= now_us and each.of_model("m")]
    held = rates_at(lists, "m", now_us)
    if not begun:
        assert held == ()
        return
    last = max(begun, key=lambda each: (each.starts_us, each.version))
    assert held == last.of_model("m"), "a list that leaves a model out takes no price from it"
    assert len(dated_costs(lists, "m")) == len([each for each in lists if each.of_model("m")])


@given(st.integers(0, 5_000))
def test_a_prompt_costs_as_its_length_says(prompt_tokens: int) -> None:
    found = rate_for(of_tier(RATES, "default"), prompt_tokens)
    assert found == (LONG if prompt_tokens >= 1_000 else RATES[0])


def test_a_tier_that_is_not_listed_is_not_asked_for() -> None:
    assert (of_tier(RATES, "flex"), bought_tier(of_tier(RATES, "flex"))) == ((FLEX,), "flex")
    for tier in ("priority", "default"):
        assert bought_tier(of_tier(RATES, tier)) is None
    assert bought_tier(()) is None


def test_what_cannot_be_is_said() -> None:
    assert [*mistakes(RATES)] == []
    assert [*mistakes((rate(), rate()))] == ["m has two rates for the same calls"]
    assert [*mistakes((LONG, FLEX))] == [
        "m has no rate of the default tier from the first token of a prompt on"
    ]
    with pytest.raises(ValidationError, match="a cached token costs more"):
        rate(cached_input_usd_per_mtok="3")
    with pytest.raises(ValidationError, match="Sluice makes no batch calls"):
        rate(batch=True)
    with pytest.raises(ValidationError, match="images"):
        rate(images={"1024x1024/high/more": "1"})


def test_rates_of_batches_that_a_list_has_from_before_are_left_out() -> None:
    before = rate().model_dump(by_alias=False)
    assert read_rates([before | {"batch": False}, before | {"batch": True}]) == (rate(),)


@pytest.mark.parametrize(
    ("unit", "nanousd"),
    [
        ("image", 20_000_000),
        ("image/512x512/low", 20_000_000),
        ("image/1024x1024/low", 40_000_000),
        ("image/1024x1024/high", 170_000_000),
        ("second", 0),
    ],
)
def test_an_image_costs_as_its_size_and_quality_say_else_as_any(unit: str, nanousd: int) -> None:
    assert IMAGES.unit_nanousd(unit) == nanousd
    tried = OpenAttempt(external(), "external:p", "m", 5, rates=(IMAGES,), unit=unit)
    drawn = tried.record(PromptAlone(Usage(input=1_000, units=3)), 9)
    assert drawn.nanousd_per_unit == nanousd
    assert bought_nanousd(drawn) == 3 * nanousd + 1_000 * 2_000
    (cost,) = dated_costs([PriceList(1, 0, (IMAGES,))], "m")
    assert cost.cost_nanousd_per_unit == 170_000_000, "decisions reckon with the dearest"


@given(COMPONENTS, COMPONENTS)
def test_changes_make_the_rates_before_those_after(before: ListedRate, after: ListedRate) -> None:
    made = before.components
    for change in changes((before,), (after,)):
        assert made.pop(change.component, None) == change.was != change.is_now
        if change.is_now is not None:
            made[change.component] = change.is_now
        assert change.per == ("mtok" if change.component in ("input", "output") else "unit")
    assert made == after.components


def test_changes_are_those_of_each_rate_and_of_nothing_else() -> None:
    assert changes(RATES, RATES) == []
    every = (*RATES, IMAGES)
    assert read_rates([each.model_dump(by_alias=False) for each in every]) == every
    dearer = rate(input_usd_per_mtok="3")
    (change,) = changes((rate(),), (dearer,))
    assert (change.component, change.was, change.is_now) == ("input", 2 * USD, 3 * USD)
    assert changes((rate("gone"),), (rate(),))[0].was is None
    assert {each.model for each in changes((rate("gone"),), (rate(),))} == {"m"}


def test_an_attempt_has_the_rate_for_what_its_prompt_came_to() -> None:
    pool = external(cost_input_nanousd_per_mtok=7, cost_output_nanousd_per_mtok=7)
    meter = Meter(1_200, 1)
    tried = OpenAttempt(pool, "external:p", "m", 5, rates=of_tier(RATES, "default"))
    short, long = tried.record(None, 9), tried.record(meter, 9)
    assert (short.input_nanousd_per_mtok, short.cached_input_nanousd_per_mtok) == (2 * USD, None)
    assert long.output_nanousd_per_mtok == 8 * USD
    bare = OpenAttempt(pool, "external:p", "m", 5).record(None, 9)
    assert bare.input_nanousd_per_mtok == 7
