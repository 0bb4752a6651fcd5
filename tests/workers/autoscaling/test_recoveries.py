"""When a pool that lost its replicas has one again, on a clock that the test moves."""

from hypothesis import given
from hypothesis import strategies as st

from workers.autoscaling.recoveries import (
    RECOVERIES_MAX,
    SOONEST_S,
    SPARE,
    Loss,
    LostPart,
    expected_s,
    follow,
    ready_in_s,
    with_another,
)

GONE = st.sampled_from(LostPart)
SECONDS = st.floats(0.1, 1e5)


@given(st.lists(GONE, min_size=1))
def test_what_is_gone_is_the_gravest_that_was_seen_since_the_first(seen: list[LostPart]) -> None:
    loss = None
    for number, gone in enumerate(seen):
        loss = follow(loss, lost=True, gone=gone, at_ms=100 + number)
    assert loss == Loss(max(seen), 100)
    assert follow(loss, lost=False, gone=LostPart.CLUSTER, at_ms=900) is None


@given(GONE, st.lists(SECONDS, min_size=1, max_size=9), SECONDS)
def test_longest_of_the_last_recoveries_is_expected(
    gone: LostPart, seconds: list[float], cold_start_s: float
) -> None:
    took: dict[str, tuple[float, ...]] = {}
    for took_s in seconds:
        took = dict(with_another(took, Loss(gone, 0), "p", round(took_s * 1000)))
    last = [round(round(s * 1000) / 1000, 2) for s in seconds[-RECOVERIES_MAX:]]
    assert expected_s(took, gone, "p", cold_start_s) == SPARE * max(last)
    assert expected_s(took, gone, "other", cold_start_s) >= cold_start_s


@given(GONE, SECONDS, st.lists(SECONDS, max_size=5))
def test_whoever_is_told_early_enough_comes_when_it_is_back(
    gone: LostPart, cold_start_s: float, seconds: list[float]
) -> None:
    """A recovery that takes no longer than is expected keeps every promise, and no promise is for
    the past, however long it takes."""
    took: dict[str, tuple[float, ...]] = {}
    for took_s in seconds:
        took = dict(with_another(took, Loss(gone, 0), "p", round(took_s * 1000)))
    loss, lasts_s = Loss(gone, 0), expected_s(took, gone, "p", cold_start_s)
    for share in (0.0, 0.25, 0.5, 0.75, 0.99):
        told_s = ready_in_s(loss, took, "p", cold_start_s, round(share * lasts_s * 1000))
        assert share * lasts_s + told_s >= lasts_s - 0.002
    assert ready_in_s(loss, took, "p", cold_start_s, round(lasts_s * 4_000)) >= SOONEST_S


def test_nothing_measured_yet() -> None:
    told = [ready_in_s(Loss(gone, 0), {}, "p", 8.0, 2_000) for gone in LostPart]
    assert told == [8.0, 23.0, 45.5]
    assert ready_in_s(Loss(LostPart.REPLICA, 0), {}, "p", 8.0, 20_000) == 10.0
