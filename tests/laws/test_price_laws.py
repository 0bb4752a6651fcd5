"""Laws of prices: whatever a version may say, a charge is bounded, reproducible and never falls."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.prices.book import (
    Component,
    Discount,
    PriceBook,
    PriceRate,
    Prices,
    PriceVersion,
    make_book,
    publish,
    read_published,
)
from billing.prices.rating import (
    UNITS_PER_PRICE,
    amount_of,
    dearest,
    hold_for,
    part_of,
    rate,
    rate_frozen,
    units_of,
)
from billing.prices.tariff import OF_TOKENS, WITH_INPUT, WITH_OUTPUT, image_of
from billing.prices.terms import PriceError, check_terms
from billing.types import Usage

M = ("m", "default", False)
STEPS = (0, 100, 1000)
GPU_MS_MAX = 5000

UNIT = "image/1024x1024/high"
UNITS = ("image", "image/1024x1024", UNIT, "search_unit", "second", "character")

tokens = st.integers(0, 3000)
usages = st.builds(
    Usage,
    input=tokens,
    cached_input=tokens,
    output=tokens,
    cache_write=tokens,
    reasoning=tokens,
    gpu_ms=st.integers(0, 2 * GPU_MS_MAX),
    audio_input=tokens,
    image_input=tokens,
    audio_output=tokens,
    image_output=tokens,
    units=st.integers(0, 50),
    unit=st.just(UNIT),
)
prices_ = st.integers(0, 3_000_000) | st.integers(0, 10**13)
rises = st.lists(prices_, min_size=len(STEPS), max_size=len(STEPS)).map(sorted)


@st.composite
def terms(draw: st.DrawFn, **needed: Any) -> list[PriceRate]:
    """All that one group may say: some classes, prices that rise with the prompt, fees."""
    model, tier, batch = M
    found = []
    for component in OF_TOKENS:
        if component in (Component.INPUT, Component.OUTPUT) or draw(st.booleans()):
            for prompt_from, price in zip(STEPS, draw(rises), strict=True):
                if not prompt_from or draw(st.booleans()):
                    found.append(
                        PriceRate(model, tier, component, price, batch, prompt_from=prompt_from)
                    )
    for component in (Component.REQUEST, Component.MINIMUM, Component.GPU_MS):
        if draw(st.booleans()):
            most = GPU_MS_MAX if component is Component.GPU_MS else None
            found.append(PriceRate(model, tier, component, draw(prices_), batch, units_max=most))
    for unit in UNITS:
        if draw(st.booleans()):
            found.append(PriceRate(model, tier, unit, draw(prices_), batch))
    return found


def book_of(rates: list[PriceRate], *more: PriceVersion) -> PriceBook:
    return make_book([PriceVersion("pv_1", 1, None, tuple(rates)), *more])


def prices_of(rates: list[PriceRate], org: str = "", *more: PriceVersion) -> Prices:
    found = book_of(rates, *more).lookup(*M, at_us=9, org=org)
    assert isinstance(found, Prices)
    return found


agreements = st.builds(
    PriceVersion,
    version_id=st.just("own"),
    effective_from_us=st.just(2),
    effective_to_us=st.none(),
    rates=terms().map(tuple) | st.just(()),
    org=st.just("org_1"),
    discounts=st.lists(
        st.builds(Discount, st.sampled_from(["", "m", "other"]), st.integers(0, 10_000)),
        max_size=3,
        unique_by=lambda discount: discount.model,
    ).map(tuple),
)


@given(rates=terms())
def test_what_is_drawn_here_is_what_a_version_may_say(rates: list[PriceRate]) -> None:
    check_terms(rates, (), of_one_org=False)


@given(rates=terms(), usage=usages, more=usages)
def test_rating_is_monotone_in_every_class_of_tokens(
    rates: list[PriceRate], usage: Usage, more: Usage
) -> None:
    at = prices_of(rates)
    assert rate(usage, at).amount_nanousd <= rate(usage + more, at).amount_nanousd


@given(rates=terms(), usage=usages, other=usages)
def test_rating_is_additive_but_for_one_rounding_a_component_and_what_is_paid_once(
    rates: list[PriceRate], usage: Usage, other: Usage
) -> None:
    at = prices_of(rates)
    assume(not usage.is_nothing and not other.is_nothing)
    assume(
        at.at_prompt(usage.prompt)
        == at.at_prompt(other.prompt)
        == at.at_prompt((usage + other).prompt)
    )
    both, one, two = rate(usage + other, at), rate(usage, at), rate(other, at)
    for part in (*OF_TOKENS, "units"):
        name = f"{part}_nanousd"
        assert abs(getattr(both, name) - getattr(one, name) - getattr(two, name)) <= 1


@given(
    rates=terms(),
    usage=usages,
    prompt_more=tokens,
    output_more=tokens,
    units_more=st.integers(0, 3),
    agreement=st.none() | agreements,
)
@example(
    [PriceRate("m", "default", part, 500_000) for part in OF_TOKENS],
    Usage(
        **{"input": 3, "cached_input": 3, "cache_write": 3, "audio_input": 3, "image_input": 3},
        **{"output": 3, "reasoning": 3, "audio_output": 3, "image_output": 3},
    ),
    0,
    0,
    0,
    None,
)  # every part rounds up
def test_a_hold_covers_every_charge_of_no_longer_a_prompt_and_no_more_output(
    rates: list[PriceRate],
    usage: Usage,
    prompt_more: int,
    output_more: int,
    units_more: int,
    agreement: PriceVersion | None,
) -> None:
    at = prices_of(rates, "org_1", *([agreement] if agreement else []))
    prompt, output = usage.prompt + prompt_more, usage.completion + output_more
    held = hold_for(prompt, output, at, usage.unit, usage.units + units_more)
    assert rate(usage, at).amount_nanousd <= held


@given(rates=terms(), usage=usages)
def test_the_dearest_usage_costs_no_less_than_any_but_for_roundings(
    rates: list[PriceRate], usage: Usage
) -> None:
    at = prices_of(rates)
    counts = (usage.prompt, usage.completion, at, usage.unit, usage.units)
    most = dearest(*counts)
    assert (most.prompt, most.completion) == (usage.prompt, usage.completion)
    held = hold_for(*counts)
    dearest_amount = rate(most, at).amount_nanousd
    assert rate(usage, at).amount_nanousd - 5 <= dearest_amount <= held


@given(rates=terms(), prompt=tokens, output=tokens)
def test_a_hold_is_above_the_dearest_charge_by_roundings_alone(
    rates: list[PriceRate], prompt: int, output: int
) -> None:
    """Half a nano-USD for each class that the prompt may be split among, one for the output."""
    prices = prices_of(rates)
    for read, written in ((prompt, 0), (0, output)):
        at = prices.at_prompt(read)
        of_prompt = _known(at.input, at.cached_input, *(getattr(at, name) for name in WITH_INPUT))
        of_output = _known(at.output, *(getattr(at, name) for name in WITH_OUTPUT))
        most = Fraction(amount_of(1, at.request) + amount_of(at.gpu_ms_max, at.gpu_ms))
        if read:
            most += Fraction(read * max(of_prompt), UNITS_PER_PRICE) + Fraction(len(of_prompt), 2)
        if written:
            most += Fraction(written * max(of_output), UNITS_PER_PRICE)
            most += max(Fraction(1), Fraction(len(of_output), 2))
        assert hold_for(read, written, prices) <= max(most, amount_of(1, at.minimum))


def _known(*prices: int | None) -> list[int]:
    return [price for price in prices if price is not None]


@given(rates=terms(), prompt=tokens, output=tokens, more=tokens)
def test_a_hold_never_shrinks_as_the_slice_grows(
    rates: list[PriceRate], prompt: int, output: int, more: int
) -> None:
    at = prices_of(rates)
    assert hold_for(prompt, output, at) <= hold_for(prompt, output + more, at)


@given(rates=terms(), usage=usages)
def test_each_component_is_rounded_once_from_its_exact_amount(
    rates: list[PriceRate], usage: Usage
) -> None:
    at = prices_of(rates)
    charge = rate(usage, at)
    if usage.is_nothing:
        assert charge.amount_nanousd == 0
        return
    for component, units, price in units_of(usage, at):
        booked = getattr(charge, part_of(component))
        if component is not Component.MINIMUM:
            assert booked == amount_of(units, price)
            assert abs(Fraction(units * price, UNITS_PER_PRICE) - booked) <= Fraction(1, 2)
    without = charge.amount_nanousd - charge.minimum_nanousd
    assert charge.amount_nanousd == max(without, amount_of(1, at.minimum))


@given(rates=terms(), usage=usages)
def test_prices_step_at_the_prompt_they_name_and_are_flat_between(
    rates: list[PriceRate], usage: Usage
) -> None:
    at = prices_of(rates)
    named = {rate.prompt_from for rate in rates}
    step = max(prompt_from for prompt_from in named if prompt_from <= usage.prompt)
    in_force: dict[str, int] = {}
    for one in sorted(rates, key=lambda one: one.prompt_from):
        if one.prompt_from <= step:
            in_force[one.component] = one.nanousd_per_mtok
    found = at.at_prompt(usage.prompt)
    assert found.prompt_from == step
    assert (found.input, found.output) == (
        in_force[Component.INPUT],
        in_force[Component.OUTPUT],
    )
    assert found.cached_input == in_force.get(Component.CACHED_INPUT, found.input)
    for name in (*WITH_INPUT, *WITH_OUTPUT):
        assert getattr(found, name) == in_force.get(name)


WAYS = ("auto", "1024x1024", "512x512"), ("auto", "high", "low")
of_images = st.tuples(*map(st.sampled_from, WAYS)).map(lambda way: image_of(*way))


@given(rates=terms(), usage=usages, asked=of_images, made=of_images, more=st.integers(0, 3))
def test_an_image_is_charged_no_more_than_was_held_for_it_whatever_came(
    rates: list[PriceRate], usage: Usage, asked: str, made: str, more: int
) -> None:
    at = prices_of(rates)
    unit = at.unit_charged(asked, made)
    assert unit in (asked, made)
    came = replace(usage, unit=unit)
    held = hold_for(usage.prompt, usage.completion, at, asked, usage.units + more)
    assert rate(came, at).amount_nanousd <= held


@given(rates=terms(), asked=of_images)
def test_an_image_that_the_server_chooses_costs_as_the_dearest_that_it_may_choose(
    rates: list[PriceRate], asked: str
) -> None:
    at = prices_of(rates)
    _, size, quality = asked.split("/")
    sizes = ("1024x1024", "1x1") if size == "auto" else (size,)
    qualities = ("high", "x") if quality == "auto" else (quality,)
    each = [at.unit_price(image_of(*way)) for way in product(sizes, qualities)]
    assert at.unit_price(asked) == max([p for p in each if p is not None], default=None)


@given(rates=terms(), usage=usages)
def test_an_image_costs_as_its_size_and_quality_do_before_what_is_said_of_any(
    rates: list[PriceRate], usage: Usage
) -> None:
    said = {rate.component: rate.nanousd_per_mtok for rate in rates}
    best = next((said[each] for each in reversed(UNITS[:3]) if each in said), None)
    at = prices_of(rates)
    assert at.unit_price(UNIT) == best
    assert at.unit_price("image/512x512/low") == said.get("image")
    assert at.unit_price("") is at.unit_price("unknown") is None
    assert rate(usage, at).units_nanousd == amount_of(usage.units, best or 0)


@given(rates=terms(), usage=usages, agreement=agreements)
def test_rating_again_with_what_was_frozen_gives_the_same_charge_whatever_came_later(
    rates: list[PriceRate], usage: Usage, agreement: PriceVersion
) -> None:
    at = prices_of(rates, "org_1", agreement)
    charged = rate(usage, at)
    later = [
        PriceVersion("pv_2", 5, None, tuple(rates[:1])),
        PriceVersion("own_2", 6, None, (), org="org_1", discounts=(Discount("", 10_000),)),
    ]
    book = read_published(publish(book_of(rates, agreement, *later), now_us=9))
    model, tier, batch = M
    again = rate_frozen(
        book, model=model, tier=tier, batch=batch, usage=usage, price_version=at.version_id
    )
    assert at.version_id == "pv_1+own"
    assert (again.amount_nanousd, again) == (charged.amount_nanousd, charged)


@given(rates=terms(), usage=usages, points=st.integers(0, 10_000), less=st.integers(0, 10_000))
def test_a_larger_discount_never_costs_more_and_none_is_everybodys_price(
    rates: list[PriceRate], usage: Usage, points: int, less: int
) -> None:
    def paid(basis_points: int) -> int:
        off = PriceVersion("own", 2, None, (), org="o", discounts=(Discount("", basis_points),))
        return rate(usage, prices_of(rates, "o", off)).amount_nanousd

    assert paid(max(points, less)) <= paid(min(points, less))
    assert paid(0) == rate(usage, prices_of(rates)).amount_nanousd
    assert paid(10_000) == 0


@given(rates=terms(), where=st.integers(1, 10**6))
def test_a_price_that_falls_with_the_prompt_is_refused(rates: list[PriceRate], where: int) -> None:
    base = next(one for one in rates if one.component is Component.INPUT and not one.prompt_from)
    assume(base.nanousd_per_mtok)
    dearest = max(STEPS) + where
    falls = PriceRate(
        base.model,
        base.tier,
        base.component,
        base.nanousd_per_mtok - 1,
        base.batch,
        prompt_from=dearest,
    )
    with pytest.raises(PriceError, match="costs less for longer prompts"):
        check_terms([*rates, falls], (), of_one_org=False)
