"""Keep-alive by ski rental: never far from hindsight, and near it where gaps go on as they were."""

from hypothesis import given
from hypothesis import strategies as st

from workers.autoscaling.keep_alive import (
    EDGES_S,
    GAPS_LEAST,
    NO_GAPS,
    TRUST,
    Quiet,
    after_look,
    cost_s,
    dense,
    hindsight_s,
    keep_s,
    keep_usd_per_s,
    sparse,
    start_worth_s,
    with_gap,
)

GAPS_S = st.lists(st.floats(1, 50_000), min_size=1, max_size=60)
WORTHS_S = st.floats(0.5, 5_000)


def histogram(gaps_s: list[float]) -> tuple[float, ...]:
    gaps = NO_GAPS
    for gap_s in gaps_s:
        gaps = with_gap(gaps, gap_s)
    return gaps


@given(
    known=st.lists(st.floats(1, 50_000), min_size=20, max_size=60), coming=GAPS_S, worth=WORTHS_S
)
def test_cost_is_within_its_bound_of_hindsight_whatever_comes(
    known: list[float], coming: list[float], worth: float
) -> None:
    """Also where the gaps that come have nothing to do with those that were seen."""
    kept_s = keep_s(histogram(known), worth)
    assert kept_s is not None
    bound = (1 + 1 / TRUST) * hindsight_s(coming, worth)
    assert cost_s(coming, kept_s, worth) <= bound * (1 + 1e-9)


@given(gap=st.sampled_from(EDGES_S[10:30]), worth=st.floats(10, 400))
def test_regular_gap_is_slept_through_if_it_is_long_and_kept_through_if_it_is_short(
    gap: float, worth: float
) -> None:
    kept_s = keep_s(histogram([gap] * 30), worth)
    assert kept_s is not None
    if gap <= worth:
        assert kept_s >= gap
    elif gap > worth / TRUST:
        assert kept_s == TRUST * worth


def test_few_gaps_and_free_replicas_advise_nothing() -> None:
    few = histogram([5.0] * (round(GAPS_LEAST) - 1))
    assert keep_s(few, 60.0) is None
    assert keep_s(histogram([5.0] * 40), start_worth_s(8.0, 0.0, 100_000)) is None


def test_start_is_worth_its_seconds_and_those_of_a_caller() -> None:
    assert start_worth_s(8.0, 20_000, 100_000) == 48.0


def test_gap_is_from_the_last_call_to_the_next_one_seen_or_not() -> None:
    quiet = Quiet()
    for at_s, busy, begun in (
        (0, False, 7),  # who knows since when
        (50, True, 8),
        (60, False, 8),
        (90, False, 8),
        (100, True, 9),  # after 40 s
        (101, False, 9),
        (121, False, 10),  # one came and went
        (200, False, 10),
    ):
        quiet = after_look(quiet, at_ms=at_s * 1000, is_busy=busy, begun=begun)
    assert quiet.gaps == histogram([40.0, 20.0])
    assert quiet.since_ms == 121_000


@given(gaps=st.lists(st.floats(0, 1e6), max_size=3_000))
def test_memory_of_gaps_is_bounded(gaps: list[float]) -> None:
    known = histogram(gaps)
    assert sum(known) <= 1_001
    assert dense(sparse(known)) == tuple(round(n, 2) for n in known)


@given(known=st.lists(st.floats(1, 50_000), min_size=20, max_size=60), cost=st.floats(1e-7, 1))
def test_reserved_pool_gains_nothing_from_going_cold_and_keeps_its_idle_time(
    known: list[float], cost: float
) -> None:
    """`keep_s` is None: what the operator set holds. A rented one follows its gaps."""

    def kept_s(*, is_reserved: bool) -> float | None:
        keep = keep_usd_per_s(cost, is_reserved=is_reserved)
        return keep_s(histogram(known), start_worth_s(2.0, keep, 0.0001))

    assert kept_s(is_reserved=True) is None
    rented = kept_s(is_reserved=False)
    assert (rented is None) == (sum(histogram(known)) < GAPS_LEAST)
