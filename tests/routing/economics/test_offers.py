"""Which offer a traffic calls for: laws over any set-up, then figures by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.economics.offers import (
    MONTH_H,
    ReplicaPrice,
    Setup,
    Traffic,
    break_evens,
    month_cost,
    offers,
    ratio,
    setup_of,
)
from routing.economics.predictor import TargetFits
from routing.economics.targets import line_of
from routing.hardware.catalogue import Precision, shipped
from routing.types import Offer
from routing.variants import Variant
from tests.routing.economics.test_roofline import LLAMA_70B
from tests.routing.fleets import external, pool

FP8 = Variant("small", "fp8", Precision.FP8, 2, 8192, LLAMA_70B)
ON_H100 = pool(
    **{"variant": "fp8", "declared": FP8, "hardware": "h100", "part": shipped()["h100"]},
    cost_nanousd_per_s=0,
    max_ongoing=32,
)
USD_H = {Offer.SERVERLESS: 4.0, Offer.DEDICATED: 3.0, Offer.BARE_METAL: 2.0}


def setup(prefill_s: float, step_s: float, most: int, servers: int = 1) -> Setup:
    prices = {
        offer: ReplicaPrice(usd_h, servers if offer is Offer.BARE_METAL else 1, "by hand")
        for offer, usd_h in USD_H.items()
    }
    return Setup(
        "p",
        most,
        lambda tokens: tokens * prefill_s,
        lambda batch, _: step_s * (1 + 0.01 * batch),
        prices,
    )


setups = st.builds(
    setup, st.floats(1e-6, 1e-3), st.floats(1e-4, 0.1), st.integers(1, 64), st.integers(1, 8)
)
traffics = st.builds(
    Traffic, st.floats(1, 1e7), st.floats(1, 4000), st.floats(1, 2000), st.floats(1, 5)
)


def usd_month(of: Setup, offer: Offer, traffic: Traffic) -> float:
    cost = month_cost(of, offer, traffic)
    assert cost is not None
    return cost.usd_month


@given(setups, st.sampled_from(Offer), traffics, st.floats(1, 100))
def test_more_traffic_never_costs_less(
    of: Setup, offer: Offer, traffic: Traffic, times: float
) -> None:
    more = traffic._replace(requests_per_day=traffic.requests_per_day * times)
    assert usd_month(of, offer, more) >= usd_month(of, offer, traffic) * (1 - 1e-9)


@given(setups, traffics)
def test_planned_replicas_can_serve_the_busiest_hour(of: Setup, traffic: Traffic) -> None:
    cost = month_cost(of, Offer.DEDICATED, traffic)
    assert cost is not None
    capacity_per_s = cost.replicas * of.calls_most / of.stay_s(of.calls_most, traffic)
    assert capacity_per_s >= traffic.per_s * traffic.peak * (1 - 1e-9)


@given(setups, traffics)
def test_what_is_paid_while_busy_is_cheapest_for_a_call_a_day(of: Setup, traffic: Traffic) -> None:
    one = traffic._replace(requests_per_day=1.0)
    if of.busy_replicas(one) < 0.1:
        assert min(offers([of], one), key=lambda cost: cost.usd_month).offer is Offer.SERVERLESS


@given(setups, traffics)
def test_at_a_break_even_the_committed_offer_pays_and_just_below_it_does_not(
    of: Setup, traffic: Traffic
) -> None:
    for found in break_evens([of], traffic):
        at = traffic._replace(requests_per_day=found.requests_per_day)
        below = traffic._replace(requests_per_day=found.requests_per_day * 0.99)
        assert usd_month(of, found.dear, at) <= usd_month(of, found.cheap, at)
        if found.requests_per_day > 1:
            assert usd_month(of, found.dear, below) > usd_month(of, found.cheap, below)


def test_one_replica_that_is_always_on_costs_its_hours() -> None:
    of = setup(1e-4, 0.01, 16)
    quiet = Traffic(10, 100, 100)
    assert usd_month(of, Offer.DEDICATED, quiet) == pytest.approx(3.0 * MONTH_H)
    assert usd_month(of, Offer.BARE_METAL, quiet) == pytest.approx(2.0 * MONTH_H)
    alone_s = 100 * 1e-4 * 2 + 100 * 0.01 * 1.01
    busy_share = 10 * alone_s / 86_400
    assert usd_month(of, Offer.SERVERLESS, quiet) == pytest.approx(
        busy_share * 4.0 * MONTH_H, rel=0.01
    )


def test_catalogue_prices_a_pool_and_bare_metal_comes_as_whole_servers() -> None:
    of = setup_of(ON_H100, TargetFits(line_of(ON_H100)))
    assert of is not None
    prices = {offer: (price.usd_h, price.replicas_sold) for offer, price in of.prices.items()}
    assert prices == {
        Offer.SERVERLESS: (pytest.approx(2 * 4.176), 1),
        Offer.DEDICATED: (pytest.approx(2 * 3.348), 1),
        Offer.BARE_METAL: (pytest.approx(2 * 2.00), 4),
    }
    [serverless, _, metal] = offers([of], Traffic(1000, 500, 200))
    assert metal.replicas == 4 and metal.usd_month == pytest.approx(8 * 2.00 * MONTH_H)
    assert serverless.usd_month < metal.usd_month / 10


def test_price_of_a_pool_counts_and_others_follow_what_parts_cost() -> None:
    of = setup_of(pool(), None)
    assert of is not None
    assert of.prices[Offer.SERVERLESS].usd_h == pytest.approx(20_000e-9 * 3600)
    share = of.prices[Offer.DEDICATED].usd_h / of.prices[Offer.SERVERLESS].usd_h
    assert share == pytest.approx(ratio(Offer.DEDICATED)) and 0.7 <= share <= 0.81
    assert "0.48 times serverless" in of.prices[Offer.BARE_METAL].source


def test_server_outside_and_replica_without_a_price_are_no_set_up() -> None:
    assert setup_of(external(), None) is None
    assert setup_of(pool(cost_nanousd_per_s=0), None) is None
    tight = pool(variant="fp8", declared=FP8, hardware="l4", part=shipped()["l4"])
    assert setup_of(tight, None) is None


def test_no_more_calls_are_planned_than_keys_and_values_have_room_for() -> None:
    """Two H100 hold 70 GB of weights and 74 GB of cache: 27 contexts of 8,192 tokens."""
    of = setup_of(ON_H100, None)
    assert of is not None
    assert of.batch_most(Traffic(1, 8000, 384)) == 27
    assert of.batch_most(Traffic(1, 100, 100)) == of.calls_most == 32
