"""Whatever the figures, a chart stays inside its frame and in the order of its values."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gateway.console.charts import (
    BOTTOM,
    LEFT,
    TOP,
    WIDTH,
    Scale,
    band,
    bars,
    linear_scale,
    log_scale,
    shares,
    slots,
)

LENGTHS_US = st.integers(1, 10**10)
PAIRS = st.lists(
    st.none() | st.tuples(LENGTHS_US, LENGTHS_US).map(lambda two: (min(two), max(two))),
    min_size=1,
    max_size=60,
)
COUNTS = st.lists(st.integers(0, 10**9), min_size=1, max_size=60)


@given(st.lists(LENGTHS_US, max_size=60))
def test_log_scale_covers_all_values_with_few_round_ticks(values: list[int]) -> None:
    scale = log_scale(values)
    assert all(scale.low <= value <= scale.high * (1 + 1e-9) for value in values)
    assert scale.high / scale.low >= 10
    assert 2 <= len(scale.ticks) <= 5
    assert all(re.fullmatch(r"[125]", f"{tick:.0e}"[0]) for tick in scale.ticks)


@given(COUNTS)
def test_linear_scale_begins_at_zero_and_covers_all_values(values: list[int]) -> None:
    scale = linear_scale(values)
    assert scale.low == 0
    assert max(values) <= scale.high * (1 + 1e-9)


@given(st.lists(LENGTHS_US, min_size=2, max_size=60))
def test_larger_values_never_lie_lower(values: list[int]) -> None:
    for scale in (log_scale(values), linear_scale(values)):
        heights = [scale.y(value) for value in sorted(values)]
        assert heights == sorted(heights, reverse=True)
        assert all(TOP <= y <= BOTTOM for y in heights)


@given(PAIRS)
def test_band_shows_every_slot_once_and_stays_in_its_frame(
    pairs: list[tuple[int, int] | None],
) -> None:
    drawn = band(pairs, log_scale([value for pair in pairs if pair for value in pair]))
    lines = [_points(line) for line in (drawn.lower, drawn.upper)]
    there = sum(pair is not None for pair in pairs)
    assert len(lines[0]) == len(lines[1]) == there - len(drawn.dots)
    for x, y in [*lines[0], *lines[1], *_points(drawn.area)]:
        assert LEFT <= x <= WIDTH and TOP <= y <= BOTTOM
    assert all(low >= high for _, low, high in drawn.dots)
    assert len(_points(drawn.area)) == 2 * len(lines[0])


def test_gap_in_the_figures_is_a_gap_in_the_line() -> None:
    drawn = band([(1, 2), (1, 2), None, (1, 2), None, (3, 4), (3, 4)], log_scale([1, 4]))
    assert drawn.lower.count("M") == drawn.upper.count("M") == 2
    assert len(drawn.dots) == 1


@given(COUNTS)
def test_every_value_above_zero_has_a_bar_that_is_seen(values: list[int]) -> None:
    drawn = bars(values, linear_scale(values))
    assert len(drawn) == sum(value > 0 for value in values)
    for bar in drawn:
        assert bar.height >= 1 and bar.width > 0
        assert bar.x >= LEFT and bar.x + bar.width <= WIDTH + 0.1
        assert round(bar.y + bar.height, 1) == BOTTOM


@given(st.integers(0, 500), st.integers(0, 500))
def test_gauge_fills_the_share_that_is_used(used: int, total: int) -> None:
    cells = slots(used, total)
    assert len(cells) == min(total, 32)
    filled = sum(is_used for *_, is_used in cells)
    if total:
        assert (filled == 0) == (used == 0)
        assert (filled == len(cells)) or used < total
        x, width, _ = cells[-1]
        assert abs(x + width - 100) < 0.1
    if used <= total <= 32:
        assert filled == used


@given(st.lists(st.integers(0, 10**10), max_size=6))
def test_phases_fill_the_bar_without_overlap(lengths: list[int]) -> None:
    parts = shares(lengths)
    assert len(parts) == len(lengths)
    assert all(
        (width > 0) == (length > 0) for (_, width), length in zip(parts, lengths, strict=True)
    )
    for (x, width), (following, _) in pairwise(parts):
        assert abs(x + width - following) < 0.01
    if sum(lengths):
        assert abs(parts[-1][0] + parts[-1][1] - 100) < 0.01


def test_value_outside_the_scale_is_put_on_its_edge() -> None:
    scale = Scale(10.0, 100.0, (10.0, 100.0), is_log=True)
    assert (scale.y(1), scale.y(1e9)) == (BOTTOM, TOP)


def _points(path: str) -> list[tuple[float, float]]:
    found = re.findall(r"[ML]([\d.]+) ([\d.]+)", path)
    return [(float(x), float(y)) for x, y in found]
