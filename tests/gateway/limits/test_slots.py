"""Calls at once: counted as they are, and a wait that follows how long they last."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.limits.types import ScopeLimits
from gateway.limits import slots
from gateway.limits.slots import FIRST_GUESS_S, REMEMBERED_MAX, WAIT_S_MAX, WAIT_S_MIN, Slots

OWNERS = tuple(
    ScopeLimits(scope=scope, concurrency=most)
    for scope, most in (("key:a", 4), ("org:b", None), ("org:c", 1))
)
STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(OWNERS), min_size=1), st.floats(0, 1e3), st.booleans())
)


@given(STEPS)
def test_open_calls_are_counted_under_every_limit_of_calls_at_once(
    steps: list[tuple[set[ScopeLimits], float, bool]],
) -> None:
    counted, now_s = Slots(), 1e9
    running: list[tuple[set[ScopeLimits], float]] = []
    for scopes, passed_s, ends in steps:
        now_s += passed_s
        if ends and running:
            left, began_s = running.pop(0)
            counted.leave(left, began_s, now_s)
        else:
            running.append((scopes, now_s))
            counted.enter(scopes, now_s)
        expected = Counter(s.scope for scopes, _ in running for s in scopes if s.concurrency)
        for limits in OWNERS:
            assert counted.open_in(limits.scope) == expected[limits.scope]
            assert WAIT_S_MIN <= counted.wait_s(limits.scope, 4, now_s) <= WAIT_S_MAX


def lasted(*durations_s: float, scope: ScopeLimits = OWNERS[0]) -> Slots:
    found = Slots()
    for duration_s in durations_s:
        found.enter([scope], 100.0)
        found.leave([scope], 100.0, 100.0 + duration_s)
    return found


@given(st.floats(0.2, 200), st.integers(1, 30))
def test_wait_is_how_often_one_of_so_many_calls_ends(duration_s: float, most: int) -> None:
    limits = ScopeLimits(scope="key:a", concurrency=most)
    wait_s = lasted(*[duration_s] * 3, scope=limits).wait_s("key:a", most, 1e3)
    assert wait_s == pytest.approx(min(max(duration_s / most, WAIT_S_MIN), WAIT_S_MAX))


def test_wait_follows_what_calls_take_now() -> None:
    short = lasted(*[1.0] * 9)
    longer = lasted(*[1.0] * 9, *[8.0] * 9)
    assert longer.wait_s("key:a", 4, 1e3) > 5 * short.wait_s("key:a", 4, 1e3)


def test_calls_that_are_open_for_long_say_that_calls_last_long() -> None:
    found = lasted(1.0)
    for _ in range(4):
        found.enter([OWNERS[0]], 100.0)
    assert found.wait_s("key:a", 4, 140.0) == pytest.approx(10.0)


def test_nothing_known_is_a_guess_and_no_slot_at_all_is_a_long_wait() -> None:
    assert Slots().wait_s("org:c", 1, 0.0) == FIRST_GUESS_S
    assert Slots().wait_s("key:a", 0, 0.0) == WAIT_S_MAX


def test_memory_of_averages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REMEMBERED_MAX >= 1000
    monkeypatch.setattr(slots, "REMEMBERED_MAX", 2)
    found = Slots()
    for name in ("a", "b", "c"):
        limits = ScopeLimits(scope=name, concurrency=1)
        found.enter([limits], 0.0)
        found.leave([limits], 0.0, 9.0)
    waits = [found.wait_s(n, 1, 0.0) for n in ("a", "b", "c")]
    assert waits == [FIRST_GUESS_S, 9.0, 9.0]
