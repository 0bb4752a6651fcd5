"""Ranges of ends, and spans that are kept as text."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from billing.outbox.usage.span import GAP_US, RANGES_MAX, UsageSpan, ranges, span_of

instants = st.integers(0, 10**15)


@settings(max_examples=50)
@given(st.lists(st.tuples(instants, st.integers(0, 10**9)), max_size=40))
def test_ranges_hold_every_part_and_are_few_and_apart(parts: list[tuple[int, int]]) -> None:
    spans = [(first, first + more) for first, more in parts]
    joined = ranges(spans)
    assert len(joined) <= RANGES_MAX
    assert all(any(a <= first and last <= b for a, b in joined) for first, last in spans)
    assert all(b < c for (_, b), (c, _) in itertools.pairwise(joined))
    assert ranges(joined) == joined


def test_what_lies_close_together_is_one_range() -> None:
    assert ranges([(0, 0), (GAP_US, GAP_US), (3 * GAP_US, 3 * GAP_US)]) == [
        (0, GAP_US),
        (3 * GAP_US, 3 * GAP_US),
    ]


@settings(max_examples=20)
@given(instants, st.text(max_size=5), st.lists(st.tuples(instants, instants), max_size=3))
def test_a_span_is_read_as_it_was_written(
    at_us: int, rid: str, ended: list[tuple[int, int]]
) -> None:
    span = UsageSpan("wh_1", "", (at_us, rid), (at_us + 1, ""), tuple(ended), (("req_1", 2),))
    assert span_of(span.body) == span
    assert span_of(span.body).event_id == span.event_id
