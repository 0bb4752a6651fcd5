"""Wherever a stream of a server outside is cut, however often, and however its answers go on: the
caller gets the beginning of one answer or all of it, each word once, with one end; one charge, of
its prompt and of what was delivered; at most three moves."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.types import CallStatus
from gateway.moves.move import MOVES_MAX
from gateway.upstream import fake
from tests.gateway.edge import COMPLETIONS, Response
from tests.gateway.moves.teller import PROMPT, Teller
from tests.gateway.moves.test_continuing import (
    BODIES,
    KINDS,
    Bench,
    bench,
    call,
    ends_of,
    outcomes,
    text_of,
)
from tests.laws.examples import examples

__all__ = ["bench"]
HOW: dict[str, list[fake.Act]] = {
    "close": [fake.Close()],
    "reset": [fake.Reset()],
    "end": [],
    "nonsense": [fake.Send(b'\n\ndata: {"choices": [{"delta": {"content": "X\n\n'), fake.Close()],
    "an error": [fake.Send(b'\n\ndata: {"error": {"message": "engine died"}}\n\n')],
}
CUTS = st.tuples(st.integers(0, 700), st.sampled_from(sorted(HOW)))
"""Behind so many bytes of a stream, and how."""
WORDS = st.text('ab \n"é', min_size=1, max_size=4)
STORIES = st.lists(WORDS, min_size=1, max_size=8)
OTHER = ["Something", " else", " altogether"]


def _case(
    bench: Bench,
    kind: str,
    path: str,
    story: list[str],
    cuts: list[tuple[int, str]],
    others: list[bool],
    says_usage: bool,
    refuses: bool,
) -> None:
    if kind == "prefix":  # a pool that says so goes on with the text, whatever it is
        others = []
    stories = deque(OTHER if other else story for other in [False, *others])
    ends = deque((at, HOW[how]) for at, how in cuts)
    teller = Teller(
        story, cuts=ends, stories=stories, says_usage=says_usage, refuses_prefix=refuses
    )
    response, record = call(bench, kind, teller, path)
    if response.status != 200:
        assert record.amount_nanousd == 0 and record.status is not CallStatus.ANSWERED
        return
    text, ends_seen = text_of(path, response), ends_of(response)
    assert len(ends_seen) == 1, response.body
    candidates = ["".join(story), "".join(OTHER)]
    if ends_seen == ["whole"]:
        assert text in candidates
        assert (record.status, record.finish_reason) == (CallStatus.ANSWERED, "stop")
    else:
        assert any(each.startswith(text) for each in candidates)
        assert record.status is CallStatus.FAILED
    moved = outcomes(record).count("moved")
    assert moved <= MOVES_MAX
    assert record.output <= max(len(story), len(OTHER)) and record.output >= bool(text)
    if ends_seen == ["whole"] and kind == "anew":
        assert record.output == len(story if text == candidates[0] else OTHER)
    _check_identity(path, response)


def _check_identity(path: str, response: Response) -> None:
    """One id for all of it, and each role and item once."""
    events = [json.loads(e[6:]) for e in response.body.decode().splitlines() if e[:7] == "data: {"]
    if path in ("/v1/chat/completions", COMPLETIONS):
        chunks = [event for event in events if "choices" in event]
        assert len({chunk["id"] for chunk in chunks}) <= 1
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        assert sum("role" in choice.get("delta", {}) for choice in choices) <= 1
        assert sum(choice.get("finish_reason") is not None for choice in choices) <= 1
    else:
        kinds = [event["type"] for event in events]
        for once in ("response.created", "response.output_item.added", "message_start"):
            assert kinds.count(once) <= 1


CASES: dict[str, Any] = {
    "kind": st.sampled_from(KINDS),
    "path": st.sampled_from(sorted(BODIES)),
    "story": STORIES,
    "cuts": st.lists(CUTS, min_size=1, max_size=6),
    "others": st.lists(st.sampled_from([False, False, True]), max_size=4),
    "says_usage": st.booleans(),
    "refuses": st.booleans(),
}


@settings(max_examples=examples(30))
@given(**CASES)
def test_answer_that_goes_on_is_one_answer_with_one_charge(bench: Bench, **case: Any) -> None:
    _case(bench, **case)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=600)
@given(**CASES)
def test_it_is_in_the_long_run(bench: Bench, **case: Any) -> None:
    _case(bench, **case)


@settings(max_examples=examples(20))
@given(
    kind=st.sampled_from(["prefix", "anew"]),
    path=st.sampled_from(sorted(BODIES)),
    after=st.lists(st.integers(1, 5), min_size=1, max_size=MOVES_MAX),
    how=st.sampled_from(["close", "reset", "end"]),
)
def test_charge_does_not_depend_on_how_often_an_answer_moved(
    bench: Bench, kind: str, path: str, after: list[int], how: str
) -> None:
    """All of it arrives where a server that answers is left."""
    story = ["a", *(f" word{number}" for number in range(20))]
    _, alone = call(bench, kind, Teller(story), path)
    at = sorted(after) if kind == "anew" else after
    cuts = deque((pieces, HOW[how]) for pieces in at)
    response, record = call(bench, kind, Teller(story, cuts), path)
    assert (text_of(path, response), ends_of(response)) == ("".join(story), ["whole"])
    assert outcomes(record) == ["moved"] * len(after) + ["answered"]
    assert record.amount_nanousd == alone.amount_nanousd
    assert (record.usage.prompt, record.output) == (PROMPT, len(story))
