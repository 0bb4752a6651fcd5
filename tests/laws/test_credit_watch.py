"""Laws of credit that runs low, over any amounts and thresholds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from billing.credits.watch import Threshold, ThresholdUnit, Watch

AMOUNTS = st.integers(0, 1000)
THRESHOLDS = st.frozensets(
    st.builds(Threshold, st.just(ThresholdUnit.NANOUSD), st.integers(1, 1000))
    | st.builds(Threshold, st.just(ThresholdUnit.PERCENT), st.integers(1, 100)),
    max_size=4,
)


@given(THRESHOLDS, AMOUNTS, st.lists(st.tuples(AMOUNTS, AMOUNTS), max_size=12))
def test_a_threshold_is_told_for_a_fall_and_again_only_after_a_lift(
    thresholds: frozenset[Threshold], start: int, moves: list[tuple[int, int]]
) -> None:
    """`moves` are what came before a batch, and what the batch took."""
    watch = Watch("o", thresholds, start, start)
    has_risen = dict.fromkeys(thresholds, True)
    left = start
    for came, taken in moves:
        before = left + came
        left = max(0, before - taken)
        watch, told = watch.looked(before, left)
        assert watch.left_nanousd == left
        for each in thresholds:
            limit = each.limit_nanousd(watch.granted_nanousd)
            has_risen[each] |= before >= limit
            assert (each in told) == (left < limit and has_risen[each])
            has_risen[each] = (has_risen[each] and each not in told) or left >= limit
            assert (each in watch.below) == (left < limit)


@given(THRESHOLDS, AMOUNTS, AMOUNTS)
def test_a_look_at_what_has_not_moved_tells_nothing_new(
    thresholds: frozenset[Threshold], start: int, left: int
) -> None:
    watch, _ = Watch("o", thresholds, start, start).looked(left, left)
    again, told = watch.looked(left, left)
    assert (again, told) == (watch, [])


@given(st.integers(1, 100), AMOUNTS, st.integers(1, 1000))
def test_percentages_are_of_what_there_was_when_credit_last_came(
    percent: int, left: int, came: int
) -> None:
    watch = Watch("o", frozenset({Threshold(ThresholdUnit.PERCENT, percent)}), 9999, left)
    found, _ = watch.looked(left + came, left)
    assert found.granted_nanousd == left + came
    again, _ = found.looked(left, max(0, left - 1))
    assert again.granted_nanousd == left + came
