"""What arrived of an answer is kept in its order, and whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.frame import Frame
from gateway.call.meter import Meter
from gateway.moves import arrived as arriving
from gateway.moves.arrived import Arrived, finished
from gateway.upstream import fake
from gateway.upstream.chunks import read_chunk

IDS = st.lists(st.integers(0, 10**6), max_size=3)


def frame(ids: Sequence[int] | None, index: int = 0) -> Frame:
    event = fake.own_frame("a", 1, index=index, token_ids=ids)
    return read_chunk(event.removeprefix(b"data: "))


def frames_of(arrived: Arrived, choices: int) -> list[list[list[int]]]:
    meter = Meter(1, choices)
    resume = json.loads(msgspec.json.encode(arrived.resume(meter)))
    assert finished(resume) == set()
    return [choice["frames"] for choice in resume["choices"]]


@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 2), IDS, st.booleans()), min_size=1))
def test_frames_are_kept_by_choice_whenever_they_are_gathered(
    choices: int, told: list[tuple[int, list[int], bool]]
) -> None:
    arrived = Arrived(choices)
    expected: list[list[list[int]]] = [[] for _ in range(choices)]
    for number, ids, gathers in told:
        index = number % choices
        arrived.new.append(frame(ids, index))
        expected[index].append(ids)
        if gathers:
            arrived.gather()
    arrived.gather()
    assert arrived.exact
    assert frames_of(arrived, choices) == expected


@pytest.mark.parametrize("choices", [1, 2])
@pytest.mark.parametrize("told", [[None], [[1], None], [None, [1]], [[1], None, [2]]])
def test_tokens_without_their_ids_leave_nothing_exact(
    choices: int, told: list[list[int] | None]
) -> None:
    arrived = Arrived(choices)
    arrived.new.extend(map(frame, told))
    arrived.gather()
    assert not arrived.exact


@pytest.mark.parametrize("choices", [1, 2])
def test_no_more_than_its_bound_is_kept(choices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arriving, "ARRIVED_BYTES_MAX", 100)
    arrived = Arrived(choices)
    for _ in range(200):
        arrived.new.append(frame([123_456]))
        arrived.gather()
    assert not arrived.exact
    [first, *_] = frames_of(arrived, choices)
    assert len(first) <= 100 // len("[123456]") + 1
