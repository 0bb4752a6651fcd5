"""What servers outside have cached, as they report it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.economics.cache_shares import POOLS_MAX, CacheShares

tokens = st.integers(0, 100_000)


@given(st.lists(st.tuples(tokens, tokens, tokens), max_size=30))
def test_shares_are_shares_whatever_a_server_reports(
    answers: list[tuple[int, int, int]],
) -> None:
    shares = CacheShares()
    for prompt, cached, known in answers:
        shares.observe("p", prompt, min(cached, prompt), known)
    assert 0 <= shares.known("p") <= 1
    assert 0 <= shares.unknown("p") <= 1


def test_before_anything_is_reported_all_that_is_known_is_kept_and_nothing_else() -> None:
    shares = CacheShares()
    assert (shares.known("p"), shares.unknown("p")) == (1.0, 0.0)


def test_a_server_without_a_cache_gets_no_credit_after_some_answers() -> None:
    shares = CacheShares()
    for _ in range(30):
        shares.observe("p", 2000, 0, known_tokens=1500)
    assert shares.known("p") < 0.05
    assert shares.unknown("p") == 0


def test_both_shares_become_what_is_reported() -> None:
    """Of 1,000 known tokens 800 are cached, and 100 of 500 others."""
    shares = CacheShares()
    for _ in range(300):
        shares.observe("p", 1500, 800, known_tokens=1000)
        shares.observe("q", 500, 100, known_tokens=0)
    assert shares.known("p") == pytest.approx(0.8, abs=0.01)
    assert (shares.unknown("p"), shares.known("q")) == (0.0, 1.0)
    assert shares.unknown("q") == pytest.approx(0.2, abs=0.01)


def test_pools_are_bounded() -> None:
    shares = CacheShares()
    for number in range(POOLS_MAX + 1):
        shares.observe(f"p{number}", 1000, 500, known_tokens=0)
    assert shares.unknown("p0") == 0 < shares.unknown("p1")
