"""Guessing the admin key is bounded, per address, however the tries are spread over time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.console.login_attempts import ADDRESSES_MAX, TRIES_MAX, TRY_REGAINED_S, LoginAttempts


@given(st.lists(st.floats(min_value=0, max_value=60), max_size=80))
def test_no_more_tries_than_the_burst_and_one_per_period(pauses_s: list[float]) -> None:
    guesses, now_s, made = LoginAttempts(), 1e9, 0
    for pause_s in pauses_s:
        now_s += pause_s
        made += guesses.take("a", now_s) == 0
    assert made <= TRIES_MAX + (now_s - 1e9) / TRY_REGAINED_S + 1e-6


def test_who_waits_as_told_may_try_again() -> None:
    guesses = LoginAttempts()
    assert [guesses.take("a", 0.0) for _ in range(TRIES_MAX)] == [0] * TRIES_MAX
    wait_s = guesses.take("a", 0.0)
    assert 0 < wait_s <= TRY_REGAINED_S
    assert guesses.take("a", wait_s) == 0


def test_one_address_does_not_lock_out_another_and_the_right_key_forgives() -> None:
    guesses = LoginAttempts()
    for _ in range(TRIES_MAX + 1):
        guesses.take("a", 0.0)
    assert guesses.take("b", 0.0) == 0
    guesses.forgive("a")
    assert guesses.take("a", 0.0) == 0


def test_addresses_that_are_remembered_are_bounded() -> None:
    guesses = LoginAttempts()
    for number in range(ADDRESSES_MAX * 2):
        guesses.take(str(number), 0.0)
    assert len(guesses._free_at_s) == ADDRESSES_MAX
