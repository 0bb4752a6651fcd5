"""However many people watch, the database is asked once, and off the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.console.cache import SHARE_MAX, Cached


async def test_watchers_at_the_same_time_cause_one_look() -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(threading.get_ident())
        return len(looks)

    remembered: Cached[int] = Cached(age_max_s=60)
    answers = await asyncio.gather(*(remembered.get("today", look) for _ in range(20)))
    assert answers == [1] * 20
    assert looks != [threading.get_ident()]


async def test_another_question_is_asked_at_once() -> None:
    remembered: Cached[str] = Cached(age_max_s=60)
    assert await remembered.get("monday", lambda: "m") == "m"
    assert await remembered.get("tuesday", lambda: "t") == "t"


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


async def test_old_answer_is_asked_again_and_a_failed_look_is_not_kept() -> None:
    clock = Clock()
    remembered: Cached[str] = Cached(age_max_s=5, now_s=clock)

    def fail() -> str:
        raise OSError

    with pytest.raises(OSError):
        await remembered.get("q", fail)
    assert await remembered.get("q", lambda: "first") == "first"
    clock.now_s += 4.9
    assert await remembered.get("q", lambda: "second") == "first"
    clock.now_s += 0.1
    assert await remembered.get("q", lambda: "second") == "second"


async def test_dear_answer_is_kept_so_long_that_looking_is_a_small_share_of_the_time() -> None:
    clock = Clock()
    remembered: Cached[str] = Cached(age_max_s=5, now_s=clock)

    def dear() -> str:
        clock.now_s += 2
        return "first"

    assert await remembered.get("q", dear) == "first"
    clock.now_s += 2 / SHARE_MAX - 0.1
    assert await remembered.get("q", lambda: "second") == "first"
    clock.now_s += 0.1
    assert await remembered.get("q", lambda: "second") == "second"
