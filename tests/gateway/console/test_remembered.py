"""However many people watch, the database is asked once, and off the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway.console.remembered import Remembered


async def test_watchers_at_the_same_time_cause_one_look() -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(threading.get_ident())
        return len(looks)

    remembered: Remembered[int] = Remembered(age_max_s=60)
    answers = await asyncio.gather(*(remembered.get("today", look) for _ in range(20)))
    assert answers == [1] * 20
    assert looks != [threading.get_ident()]


async def test_another_question_is_asked_at_once() -> None:
    remembered: Remembered[str] = Remembered(age_max_s=60)
    assert await remembered.get("monday", lambda: "m") == "m"
    assert await remembered.get("tuesday", lambda: "t") == "t"


async def test_old_answer_is_asked_again_and_a_failed_look_is_not_kept() -> None:
    remembered: Remembered[str] = Remembered(age_max_s=0)

    def fail() -> str:
        raise OSError

    with pytest.raises(OSError):
        await remembered.get("q", fail)
    assert await remembered.get("q", lambda: "first") == "first"
    await asyncio.sleep(0.05)
    assert await remembered.get("q", lambda: "second") == "second"
