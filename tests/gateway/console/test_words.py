"""Money is shown exactly; times and lengths are short, and in UTC."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.money import nanousd
from gateway.console.formatting import DECIMALS, duration, instant, money, plural, short_id, since

NANOUSD = st.integers(-(10**15), 10**15)


@given(NANOUSD)
def test_amount_is_exact_and_as_wide_as_any_other(amount: int) -> None:
    shown = money(amount)
    plain = shown.text.replace(",", "").replace("\N{MINUS SIGN}", "-")
    assert nanousd(plain) == amount
    assert nanousd(plain + shown.padding) == amount
    assert len(shown.decimals + shown.padding) == DECIMALS


def test_amount_has_thousands_and_at_least_two_decimals() -> None:
    assert money(1_234_567_500_000_000).text == "1,234,567.50"
    assert money(-41_000).text == "\N{MINUS SIGN}0.000041"


@pytest.mark.parametrize(
    ("us", "words"),
    [
        (-5, "0 µs"),
        (840, "840 µs"),
        (4_120, "4.1 ms"),
        (41_900, "41 ms"),
        (1_524_000, "1.52 s"),
        (12_340_000, "12.3 s"),
        (125_000_000, "2 min 05 s"),
        (11_220_000_000, "3 h 07 min"),
        (187_200_000_000, "2 d 4 h"),
    ],
)
def test_duration_has_the_digits_that_matter(us: int, words: str) -> None:
    assert duration(us) == words


def test_how_long_a_state_lasts_is_one_unit() -> None:
    lengths = (-1, 4_900_000, 750_000_000, 10_900_000_000, 200_000_000_000)
    assert [since(us) for us in lengths] == ["0 s", "4 s", "12 min", "3 h", "2 d"]


def test_instant_says_its_date_only_when_it_is_not_today() -> None:
    now_us = 1_790_000_000_000_000  # 2026-09-21 14:13:20 UTC
    assert instant(now_us, now_us).clock == "14:13:20"
    assert instant(now_us, now_us).date == ""
    assert instant(now_us - 86_400_000_000, now_us).date == "20 Sep"
    assert instant(now_us - 365 * 86_400_000_000, now_us).date == "21 Sep 2025"
    assert instant(now_us, now_us).iso == "2026-09-21T14:13:20Z"


def test_short_id_keeps_the_end_that_tells_ids_apart() -> None:
    assert short_id("req_01a1fadb658b635afd77c8ab963763b2") == "req_…963763b2"
    assert short_id("req_1") == "req_1"
    assert (plural(1, "call"), plural(2000, "call")) == ("1 call", "2,000 calls")
