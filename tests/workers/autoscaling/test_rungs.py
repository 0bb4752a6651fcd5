"""The way down over two rungs is never far from hindsight. A pool without sleep goes as before."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.workers.autoscaling.test_keep_alive import GAPS_S, histogram
from workers.autoscaling.keep_alive import TRUST, keep_s, start_worth_s
from workers.autoscaling.rungs import RungCosts, stay

KNOWN_S = st.lists(st.floats(1, 50_000), min_size=20, max_size=60)


@st.composite
def rung_costs(draw: st.DrawFn) -> RungCosts:
    start_s = draw(st.floats(0.5, 600))
    warm_per_s = draw(st.floats(0.001, 10))
    return RungCosts(
        start_s=start_s,
        wake_s=start_s * draw(st.floats(0.01, 1)),
        warm_per_s=warm_per_s,
        asleep_per_s=warm_per_s * draw(st.floats(0.01, 1)),
        wait_per_s=draw(st.floats(0, 10)),
    )


def cost_of(gap_s: float, costs: RungCosts, warm_s: float, asleep_s: float) -> float:
    """What a gap costs by this way down, counted second by second and not by rentals."""
    coming_per_s = costs.warm_per_s + costs.wait_per_s
    awake_s = min(gap_s, warm_s)
    slept_s = min(max(0.0, gap_s - warm_s), asleep_s)
    back_s = (
        0.0 if gap_s <= warm_s else costs.wake_s if gap_s <= warm_s + asleep_s else costs.start_s
    )
    rent = awake_s * costs.warm_per_s + slept_s * (costs.asleep_per_s or 0.0)
    return rent + back_s * coming_per_s


def hindsight_of(gap_s: float, costs: RungCosts) -> float:
    """Warm all along, asleep at once, or cold at once."""
    return min(
        cost_of(gap_s, costs, gap_s, 0.0),
        cost_of(gap_s, costs, 0.0, gap_s),
        cost_of(gap_s, costs, 0.0, 0.0),
    )


@given(known=KNOWN_S, coming=GAPS_S, costs=rung_costs())
def test_both_rungs_cost_within_their_bound_of_hindsight_whatever_comes(
    known: list[float], coming: list[float], costs: RungCosts
) -> None:
    way = stay(histogram(known), costs)
    assert way.warm_s is not None and way.asleep_s is not None
    for gap_s in coming:
        bound = (1 + 1 / TRUST) * hindsight_of(gap_s, costs)
        assert cost_of(gap_s, costs, way.warm_s, way.asleep_s) <= bound * (1 + 1e-9)


@given(known=KNOWN_S, costs=rung_costs())
def test_sleep_that_saves_nothing_is_not_slept(known: list[float], costs: RungCosts) -> None:
    wake_s, stay_s = costs.wake_worth_s, costs.stay_worth_s
    assume(stay_s is not None and (wake_s is None or wake_s >= stay_s))
    assert stay(histogram(known), costs).asleep_s == 0.0


@given(known=KNOWN_S, start_s=st.floats(0.5, 600), warm=st.floats(0, 10), wait=st.floats(0, 10))
def test_pool_without_sleep_stays_warm_as_long_as_one_rental_says(
    known: list[float], start_s: float, warm: float, wait: float
) -> None:
    way = stay(histogram(known), RungCosts(start_s, 0.1, warm, None, wait))
    assert way.warm_s == keep_s(histogram(known), start_worth_s(start_s, warm, wait))
    assert way.asleep_s is None


def test_free_replicas_stay_and_sleep_as_the_operator_says() -> None:
    assert stay(histogram([5.0] * 40), RungCosts(8.0, 0.2, 0.0, 0.0, 1.0)) == (None, None)
