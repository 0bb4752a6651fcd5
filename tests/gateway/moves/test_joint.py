"""Where a second answer is joined to a first one: however both were cut into pieces, the caller has
one text; and what is otherwise, or too short, is never joined."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.types import Usage
from gateway.call.frame import Choice, Frame, Logprobs
from gateway.moves.arrived import ARRIVED_BYTES_MAX
from gateway.moves.continuation import continued_body
from gateway.moves.joint import Joint
from gateway.moves.said import Said, SentChoice
from gateway.upstream.answer import Differs

TEXTS = st.text("ab \n", max_size=12)
CUTS = st.lists(st.integers(0, 12), max_size=5)


def pieces(text: str, cuts: Iterable[int]) -> list[str]:
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[start:end] for start, end in pairwise(ends)]


def frames(
    text: str, cuts: Iterable[int], index: int = 0, *, reasoning: bool = False
) -> list[Frame]:
    name = "reasoning_content" if reasoning else "content"
    return [Frame((Choice(index, {name: piece}),)) for piece in pieces(text, cuts)]


def end(index: int = 0, usage: Usage | None = None) -> Frame:
    return Frame((Choice(index, {}, finish_reason="stop"),), usage)


def said(new: Iterable[Frame], index: int = 0) -> tuple[str, str]:
    choices = [choice for frame in new for choice in frame.choices if choice.index == index]
    return "".join(c.reasoning for c in choices), "".join(c.content for c in choices)


@given(TEXTS, TEXTS, st.integers(0, 24), CUTS, CUTS)
def test_what_was_sent_and_what_is_new_are_one_answer(
    thought: str, text: str, at: int, first: list[int], second: list[int]
) -> None:
    """Cut behind so many characters, in the reasoning or in the text."""
    whole = [*frames(thought, first, reasoning=True), *frames(text, first)]
    sent = Said(1)
    sent.new.extend(whole[:at])
    sent.gather()
    [has] = sent.choices
    joint = Joint(sent.choices)
    again = [*frames(thought, second, reasoning=True), *frames(text, second), end()]
    new = joint.new(again)
    reasoning, content = said(new)
    assert (has.reasoning + reasoning, has.content + content) == (thought, text)
    assert new[-1].choices[0].finish_reason == "stop"


@given(st.text("ab", min_size=1, max_size=8), st.text("ab", max_size=8), CUTS)
def test_what_begins_otherwise_is_never_joined(sent: str, other: str, cuts: list[int]) -> None:
    joint = Joint([SentChoice(sent)])
    again = [*frames(other, cuts), end()]
    if other.startswith(sent):
        assert said(joint.new(again))[1] == other[len(sent) :]
    else:
        with pytest.raises(Differs):
            joint.new(again)


@given(st.permutations([0, 0, 0, 1, 1, 1]), st.integers(0, 6))
def test_each_of_several_choices_is_compared_by_itself(turns: list[int], at: int) -> None:
    """In whatever turns they come the second time; one that has finished says nothing more."""
    texts = {0: "abc", 1: "xyz"}
    spoken = {0: 0, 1: 0}
    whole = []
    for index in turns:
        whole += frames(texts[index][spoken[index]], [], index)
        spoken[index] += 1
    sent = Said(2)
    sent.new.extend(whole[:at])
    sent.gather()
    again = [
        each for index in (1, 0) for each in (*frames(texts[index], [1, 2], index), end(index))
    ]
    new = Joint(sent.choices).new(again)
    for index, has in enumerate(sent.choices):
        assert has.content + said(new, index)[1] == texts[index]


def test_choice_that_has_finished_says_nothing_more() -> None:
    sent = Said(2)
    sent.new.extend([*frames("abc", [], 0), end(0), *frames("x", [], 1)])
    sent.gather()
    again = [*frames("other", [], 0), end(0), *frames("xyz", [], 1), end(1)]
    new = Joint(sent.choices).new(again)
    assert (said(new, 0)[1], said(new, 1)[1]) == ("", "yz")


def test_text_that_is_too_long_is_not_kept() -> None:
    sent = Said(1)
    for _ in range(5):
        sent.new.extend(frames("x" * (ARRIVED_BYTES_MAX // 4), []))
        sent.gather()
    assert not sent.exact
    assert sent.choices[0].content == ""


def test_scores_of_a_piece_that_was_sent_in_part_are_not_joined() -> None:
    scored = Choice(0, {"content": "abc"}, logprobs=Logprobs(content=[]))
    with pytest.raises(Differs):
        Joint([SentChoice("ab")]).new([Frame((scored,))])


def test_usage_of_a_text_that_was_continued_is_its_prompt_and_all_that_was_delivered() -> None:
    joint = Joint([SentChoice()], Usage(input=99, output=4))
    [*_, last] = joint.new([*frames("ef", [1]), end(usage=Usage(4, 10, 2))])
    assert last.usage == Usage(input=0, cached_input=10, output=6)


@given(st.integers(1, 9), st.text("ab", min_size=1, max_size=5))
def test_body_goes_on_with_what_is_left_of_its_tokens(came: int, text: str) -> None:
    body = {"messages": [{"role": "user", "content": "Go."}], "max_tokens": 10, "min_tokens": 5}
    continued = continued_body(body, text, came)
    assert continued is not None
    assert continued["max_tokens"] == 10 - came and continued["min_tokens"] == max(0, 5 - came)
    assert continued["messages"][-1] == {"role": "assistant", "content": text}
    begun = body | {
        "messages": [{"role": "assistant", "content": "So: "}],
        "continue_final_message": True,
    }
    continued = continued_body(begun, text, came)
    assert continued is not None and continued["messages"] == [
        {"role": "assistant", "content": f"So: {text}"}
    ]
    assert continued_body(body, text, 10) is None, "nothing is left to be said"
    assert continued_body(body | {"n": 2}, text, came) is None
    assert continued_body(body | {"guided_regex": "a"}, text, came) is None
