"""Durations as Go prints them, and names and times on every response."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.rate_headers import go_duration, identity, lines

MS_PER = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}


@pytest.mark.parametrize(
    ("milliseconds", "printed"),
    [
        (0, "0s"),
        (12, "12ms"),
        (999, "999ms"),
        (1000, "1s"),
        (1500, "1.5s"),
        (59_999, "59.999s"),
        (60_000, "1m0s"),
        (360_000, "6m0s"),
        (3_600_000, "1h0m0s"),
        (5_425_250, "1h30m25.25s"),
    ],
)
def test_durations_are_printed_as_go_does(milliseconds: int, printed: str) -> None:
    assert go_duration(milliseconds) == printed


@given(st.integers(0, 10**10))
def test_a_printed_duration_can_be_read_back(milliseconds: int) -> None:
    parts = re.findall(r"([0-9.]+)(ms|[hms])", go_duration(milliseconds))
    assert round(sum(float(number) * MS_PER[unit] for number, unit in parts)) == milliseconds


def test_processing_time_is_never_negative() -> None:
    named = identity("req_1", 10.0, 9.5)
    assert named == {"x-request-id": "req_1", "openai-processing-ms": "0"}


@given(value=st.text(max_size=8))
def test_lines_of_a_head_carry_their_values_and_nothing_more(value: str) -> None:
    found = lines({"x-a": value, "x-b": "c"})
    if found is not None:
        assert found == b"x-a: %b\r\nx-b: c\r\n" % value.encode("latin-1")
        assert found.count(b"\n") == found.count(b"\r") == 2


@pytest.mark.parametrize("value", ["a\r\nset-cookie: b", "a\nb", "a\0", "\u20ac"])
def test_what_http_cannot_carry_is_no_line(value: str) -> None:
    assert lines({"x-a": value}) is None
