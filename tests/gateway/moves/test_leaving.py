"""Which answers move before their replica ends, and when: what can finish does, nothing is left at
the last moment, and moves are spread."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from gateway.moves.leaving import Leaving, OpenAnswer, moves_now

EVERY_S = 0.1
TIMES_S = st.integers(0, 2**20).map(lambda sixteenths: sixteenths / 16)
"""Exact sums."""
LEAVING = st.builds(
    lambda since_s, lasts_s, more_s: Leaving(
        since_s, since_s + lasts_s, since_s + lasts_s + more_s
    ),
    *(TIMES_S, TIMES_S, TIMES_S),
)
ANSWERS = st.lists(
    st.tuples(st.integers(0, 5000), st.floats(0.0, 500.0), st.booleans()), max_size=30
).map(lambda rows: [OpenAnswer(n, *row) for n, row in enumerate(rows)])
SHARES = st.floats(0.0, 1.2)


def at(leaving: Leaving, share: float) -> float:
    return leaving.since_s + share * (leaving.ends_s - leaving.since_s)


@given(LEAVING)
def test_moves_begin_after_the_notice_and_are_over_before_the_end(leaving: Leaving) -> None:
    assert leaving.since_s <= leaving.first_s <= leaving.last_s <= leaving.ends_s
    assert leaving.last_s <= leaving.node_last_s <= leaving.node_ends_s
    if leaving.ends_s > leaving.since_s:
        assert leaving.last_s < leaving.ends_s
        assert leaving.node_last_s < leaving.node_ends_s


@given(ANSWERS, LEAVING, SHARES)
def test_answer_that_can_finish_in_time_never_moves(
    answers: list[OpenAnswer[int]], leaving: Leaving, share: float
) -> None:
    now_s = at(leaving, share)
    for name in moves_now(answers, leaving, now_s, EVERY_S):
        assert now_s + answers[name].remaining_s > leaving.last_s


@given(ANSWERS, LEAVING)
def test_nothing_is_left_at_the_last_moment_wherever_it_may_go(
    answers: list[OpenAnswer[int]], leaving: Leaving
) -> None:
    long = [each for each in answers if each.remaining_s > 0]
    last = moves_now(answers, leaving, leaving.node_last_s, EVERY_S)
    assert sorted(last) == [each.name for each in long]
    if leaving.last_s < leaving.node_last_s:
        last = moves_now(answers, leaving, leaving.last_s, EVERY_S)
        assert sorted(last) == [each.name for each in long if each.has_place]


@given(ANSWERS, LEAVING, SHARES)
def test_nothing_moves_before_the_first_moment_nor_without_a_place_before_the_last(
    answers: list[OpenAnswer[int]], leaving: Leaving, share: float
) -> None:
    now_s = at(leaving, share)
    moving = moves_now(answers, leaving, now_s, EVERY_S)
    assert not moving or now_s >= leaving.first_s
    if now_s < leaving.node_last_s:
        assert all(answers[name].has_place for name in moving)


@given(ANSWERS, LEAVING, SHARES, st.integers(0, 5000))
def test_a_longer_answer_never_stays_where_a_shorter_one_moves(
    answers: list[OpenAnswer[int]], leaving: Leaving, share: float, more: int
) -> None:
    now_s = at(leaving, share)
    for name in moves_now(answers, leaving, now_s, EVERY_S)[:3]:
        longer = [*answers]
        longer[name] = longer[name]._replace(tokens_left=longer[name].tokens_left + more)
        assert name in moves_now(longer, leaving, now_s, EVERY_S)


@given(st.integers(1, 200), st.floats(2.0, 60.0))
def test_answers_that_all_must_move_do_so_evenly_and_in_time(count: int, notice_s: float) -> None:
    """Look after look, as long ones at a replica whose neighbour is warm."""
    leaving = Leaving(100.0, 100.0 + notice_s, 100.0 + 2 * notice_s)
    left: Sequence[OpenAnswer[int]] = [OpenAnswer(n, 10**6, 30.0, True) for n in range(count)]
    looks = (leaving.last_s - leaving.first_s) / EVERY_S
    most = ceil(count / max(1, int(looks) - 1)) + 1
    now_s = 100.0
    while left:
        moved = moves_now(left, leaving, now_s, EVERY_S)
        assert len(moved) <= most
        left = [each for each in left if each.name not in moved]
        assert now_s <= leaving.last_s
        now_s += EVERY_S
