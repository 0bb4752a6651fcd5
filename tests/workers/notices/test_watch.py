"""A notice is handed on once, and trouble is quiet: logged when it changes, asked again later."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.notices.announcement import Announcement, WrongAnswer
from workers.notices.metadata import MetadataAway
from workers.notices.watch import LOOK_EVERY_S, PAUSE_S_MAX, NoticeWatch

END = Announcement(99.0, "the cloud announced")
AWAY = MetadataAway("refused")
WRONG = WrongAnswer("nonsense")
Turn = Announcement | Exception | None
TURNS = st.lists(st.sampled_from([None, END, AWAY, WRONG]), max_size=30)


class Cloud:
    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = iter(turns)

    def look(self) -> Announcement | None:
        turn = next(self._turns)
        if isinstance(turn, Exception):
            raise turn
        return turn


def looks(turns: Sequence[Turn]) -> tuple[list[Announcement], list[float]]:
    heard: list[Announcement] = []
    watch = NoticeWatch(Cloud(turns), heard.append)
    return heard, [watch.look() for _ in turns]


@given(TURNS)
def test_first_notice_is_handed_on_once(turns: list[Turn]) -> None:
    heard, _ = looks(turns)
    assert heard == [END] * (END in turns)


@given(TURNS)
def test_pauses_double_up_to_their_bound_while_nobody_answers(turns: list[Turn]) -> None:
    _, pauses = looks(turns)
    before_s = LOOK_EVERY_S
    for turn, pause_s in zip(turns, pauses, strict=True):
        is_trouble = isinstance(turn, Exception)
        assert pause_s == (min(PAUSE_S_MAX, before_s * 2) if is_trouble else LOOK_EVERY_S)
        before_s = pause_s


def test_trouble_and_withdrawal_are_logged_when_they_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    looks([AWAY, AWAY, WRONG, None, None, END, END, None, None])
    assert caplog.messages == [
        "no notices can be heard: MetadataAway: refused",
        "no notices can be heard: WrongAnswer: nonsense",
        "notices are heard",
        "the cloud announced",
        "the cloud announced: withdrawn; the node drains all the same",
    ]


def test_notice_that_cannot_be_written_down_is_tried_again() -> None:
    tries = []

    def announce(end: Announcement) -> None:
        tries.append(end)
        if len(tries) == 1:
            raise OSError("no space left")

    watch = NoticeWatch(Cloud([END, END, END]), announce)
    for _ in range(3):
        watch.look()
    assert tries == [END, END]
