"""Silence is counted in turns of our own loop, on a clock that the test moves."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.limits.silence import BEATS, Silence, lived


@given(st.lists(st.booleans(), max_size=200))
def test_absence_is_so_many_looks_in_a_row_that_found_nothing(looks: list[bool]) -> None:
    silence, in_a_row = Silence(), 0
    for heard in looks:
        if heard:
            silence.note()
        in_a_row = 0 if heard else in_a_row + 1
        assert silence.looked() == (in_a_row >= BEATS)


async def test_a_loop_that_is_held_up_has_lived_one_look() -> None:
    """However long it was held up, and however often, short of so many looks."""
    async with lived(0.2):
        for _ in range(BEATS // 2):
            time.sleep(0.25)  # noqa: ASYNC251 - more than all of it, each time
            await asyncio.sleep(0)


async def test_who_waits_in_vain_is_told() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30), lived(0.05):
            await asyncio.Event().wait()
