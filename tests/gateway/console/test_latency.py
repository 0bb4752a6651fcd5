"""The last hour in minutes: percentiles that some call really had, and nothing lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from billing.queries import Timing
from gateway.console.pages.overview.latency import (
    BUCKET_US,
    BUCKETS,
    hour_start_us,
    last_hour,
    percentile,
)

NOW_US = 1_790_000_000_000_000
START_US = hour_start_us(NOW_US)


@st.composite
def timings(draw: st.DrawFn) -> list[Timing]:
    found = []
    for _ in range(draw(st.integers(0, 30))):
        ended = draw(st.integers(START_US, NOW_US))
        length = draw(st.integers(0, 10**9))
        first = draw(st.none() | st.integers(0, length))
        found.append(
            Timing(
                admitted_us=ended - length,
                ended_us=ended,
                first_token_us=None if first is None else ended - length + first,
                output=draw(st.integers(0, 1000)),
            )
        )
    return found


@given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(0.01, 1))
def test_percentile_is_a_value_that_enough_others_do_not_exceed(
    values: list[int], share: float
) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


@given(timings())
def test_every_call_of_the_hour_is_in_its_minute(found: list[Timing]) -> None:
    hour = last_hour(found, now_us=NOW_US, read_max=5000)
    minutes = {timing.ended_us // BUCKET_US for timing in found}
    whole, made = hour.charts[1], hour.charts[2]
    assert len(whole.hints) == len(made.hints) == len(minutes)
    assert made.is_empty == whole.is_empty == (not found)
    if found:
        assert made.headline == f"{sum(timing.output for timing in found):,}"


@given(st.integers(10**15, 2 * 10**15))
def test_hour_is_whole_minutes_and_the_running_one_is_its_last(now_us: int) -> None:
    start_us = hour_start_us(now_us)
    assert start_us % BUCKET_US == 0
    assert start_us + (BUCKETS - 1) * BUCKET_US <= now_us < start_us + BUCKETS * BUCKET_US


def test_figures_are_said_in_words() -> None:
    found = [
        Timing(NOW_US - 1_000_000, NOW_US, NOW_US - 1_000_000 + first, 7)
        for first in (40_000, 50_000, 600_000)
    ]
    hour = last_hour(found, now_us=NOW_US, read_max=5000)
    first, whole, made = hour.charts
    assert (first.headline, first.aside) == ("50 ms", "median, 95 % within 600 ms")
    assert whole.headline == "1.00 s"
    assert made.hints[0].text == "14:13 UTC: 21 output tokens, 3 calls"
    assert (hour.ttft, hour.ttft_tail, hour.cut_at) == ("50 ms", "600 ms", 0)


def test_hour_that_was_cut_says_so() -> None:
    found = [Timing(NOW_US - 2, NOW_US, NOW_US - 1, 1)] * 10
    assert last_hour(found, now_us=NOW_US, read_max=10).cut_at == 10


def test_hour_without_calls_is_empty_and_says_so() -> None:
    hour = last_hour([], now_us=NOW_US, read_max=5000)
    assert all(chart.is_empty for chart in hour.charts)
    assert (hour.calls, hour.ttft) == (0, "")
