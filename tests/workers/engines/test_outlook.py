"""How much output is expected of open answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.engines.continuous.outlook import Outlook

lengths = st.lists(st.integers(1, 4000), max_size=60)


@given(lengths, st.integers(1, 4000), st.data())
def test_an_open_answer_has_at_least_a_token_left_and_at_most_its_room(
    ended: list[int], most: int, data: st.DataObject
) -> None:
    outlook = Outlook()
    for length in ended:
        outlook.ended(length)
    so_far = data.draw(st.integers(0, most - 1))
    assert 1 <= outlook.tokens_left(so_far, most) <= most - so_far


@given(st.integers(1, 500), st.integers(1, 60))
def test_answers_of_one_length_are_expected_to_have_it(length: int, answers: int) -> None:
    outlook = Outlook()
    for _ in range(answers):
        outlook.ended(length)
    assert outlook.tokens_left(0, 10_000) == length


@given(lengths, st.integers(2, 4000), st.data())
def test_every_token_that_came_makes_no_more_expected(
    ended: list[int], most: int, data: st.DataObject
) -> None:
    outlook = Outlook()
    for length in ended:
        outlook.ended(length)
    so_far = data.draw(st.integers(0, most - 2))
    assert outlook.tokens_left(so_far + 1, most) <= outlook.tokens_left(so_far, most)


def test_before_any_has_ended_half_of_the_room_is_expected() -> None:
    assert Outlook().tokens_left(0, 200) == 100
