"""The laws of `retry-after`: seconds and dates say the same, and nonsense says nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.health.retry_after import DATES, retry_after_s

NOW = datetime(2026, 11, 28, 1, 0, 0, tzinfo=UTC)
NOW_S = NOW.timestamp()
FORMS = st.sampled_from(DATES)
SECONDS = st.integers(-100_000, 1_000_000)
"""Two digits of a year say no more than half a century."""


def at(seconds: int, form: str) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime(form)


@given(SECONDS, FORMS)
def test_a_date_asks_for_the_seconds_until_then(seconds: int, form: str) -> None:
    assert retry_after_s(at(seconds, form), None, NOW_S) == max(0, seconds)


@given(SECONDS, FORMS, FORMS, st.floats(0, 4e9))
def test_a_date_counts_from_the_servers_own_clock(
    seconds: int, form: str, of_date: str, ours_s: float
) -> None:
    told_s = retry_after_s(at(seconds, form), at(0, of_date), ours_s)
    assert told_s == max(0, seconds), "whatever our clock says"


@given(st.integers(0, 10**9), st.text() | st.none(), st.floats(0, 4e9))
def test_seconds_are_taken_as_they_are(seconds: int, date: str | None, now_s: float) -> None:
    assert retry_after_s(str(seconds), date, now_s) == seconds
    assert retry_after_s(f" {seconds}.5", date, now_s) == seconds + 0.5


WORDS = st.text() | st.builds(
    lambda word, cut, more: word[:cut] + more + word[cut:],
    SECONDS.flatmap(lambda s: FORMS.map(lambda form: at(s, form))),
    st.integers(0, 30),
    st.text(max_size=3),
)


@given(WORDS | st.none(), WORDS | st.none(), st.floats(0, 4e9))
def test_whatever_a_server_says_is_a_wait_or_nothing(
    word: str | None, date: str | None, now_s: float
) -> None:
    told_s = retry_after_s(word, date, now_s)
    assert told_s is None or 0 <= told_s < math.inf


@pytest.mark.parametrize(
    "senseless",
    [
        *("", "soon", "nan", "inf", "-3", "1e999", "0x10", "5 s", "tomorrow"),
        *("Sat, 28 Nov 2026", "Sat, 31 Feb 2026 01:00:00 GMT", "Sat, 28 Nov 2026 25:00:00 GMT"),
        *("Sat, 28 Nov 2026 01:00:00 CET", "2026-11-28T01:00:00Z"),
    ],
)
def test_nonsense_is_no_answer(senseless: str) -> None:
    assert retry_after_s(senseless, None, NOW_S) is None
    assert retry_after_s("Sat, 28 Nov 2026 01:00:07 GMT", senseless, NOW_S) == 7, "our clock"
