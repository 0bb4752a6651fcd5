"""Of two attempts at once one is taken, and nothing of the other one is left open."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.answer import Cut, Rejected, Rejection
from gateway.upstream.race import Race, Taken

FIRST, SECOND = "first", "second"
FAILS = ("answers", "fails", "rejects", "stays silent")
REJECTION = Rejection(400, "no", None, None)


@dataclass
class Course:
    """What is open, and what was told, of one race whose steps are turns of the loop."""

    open: set[str] = field(default_factory=set)
    dropped: list[str] = field(default_factory=list)
    overtaken: list[bool] = field(default_factory=list)

    async def attempt(self, name: str, turns: int, way: str) -> str:
        self.open.add(name)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
            if way == "stays silent":
                await asyncio.Event().wait()
            if way == "fails":
                raise Cut(name)
            if way == "rejects":
                raise Rejected(REJECTION)
        except BaseException:
            self.open.discard(name)
            raise
        return name

    async def second(self, turns: int, way: str) -> str | None:
        try:
            return await self.attempt(SECOND, turns, way)
        except (Cut, Rejected):
            return None

    async def drop(self, name: str) -> None:
        await asyncio.sleep(0)
        self.dropped.append(name)
        self.open.discard(name)

    def race(self, turns: int, way: str) -> Race[str]:
        return Race(lambda: self.second(turns, way), self.overtaken.append, self.drop)


@given(
    turns=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    ways=st.tuples(st.sampled_from(FAILS), st.sampled_from(FAILS)),
    departs_after=st.none() | st.integers(0, 12),
)
def test_however_two_attempts_end_only_what_is_taken_is_open(
    turns: tuple[int, int], ways: tuple[str, str], departs_after: int | None
) -> None:
    asyncio.run(_race(turns, ways, departs_after))


async def _race(turns: tuple[int, int], ways: tuple[str, str], departs_after: int | None) -> None:
    course = Course()
    first = course.attempt(FIRST, turns[0], ways[0])
    running = asyncio.ensure_future(course.race(turns[1], ways[1]).run(first, 0.0))
    for _ in range(40 if departs_after is None else departs_after):
        await asyncio.sleep(0)
    await asyncio.sleep(0.001 if departs_after is None else 0)
    is_pending = not running.done()
    if is_pending:
        running.cancel()
    (ended,) = await asyncio.gather(running, return_exceptions=True)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others, "no task outlives the race"
    if isinstance(ended, Taken):
        assert course.open == {ended.begun}
        assert ended.begun == (SECOND if ended.is_second else FIRST)
        assert not is_pending or ended.begun, "it ended before it was cancelled"
    else:
        assert course.open == set()
        assert isinstance(ended, (Cut, Rejected, asyncio.CancelledError))
        if departs_after is None and ways[0] != "stays silent" and not is_pending:
            assert ways[0] in ("fails", "rejects")


async def test_a_second_one_that_begins_sooner_cancels_the_first_within_a_step() -> None:
    course = Course()
    taken = await course.race(0, "answers").run(course.attempt(FIRST, 0, "stays silent"), 0.0)
    assert taken == (SECOND, True)
    assert (course.open, course.overtaken) == ({SECOND}, [True])
    task = asyncio.current_task()
    assert task is not None and not task.cancelling(), "the call itself is not cancelled"


async def test_a_first_one_that_begins_in_time_has_no_second() -> None:
    course = Course()
    taken = await course.race(0, "answers").run(course.attempt(FIRST, 3, "answers"), 60.0)
    assert (taken, course.open, course.overtaken) == ((FIRST, False), {FIRST}, [])


async def test_a_rejected_call_ends_its_second_attempt() -> None:
    course = Course()

    async def first() -> str:
        while SECOND not in course.open:  # noqa: ASYNC110
            await asyncio.sleep(0)
        raise Rejected(REJECTION)

    with pytest.raises(Rejected):
        await course.race(0, "stays silent").run(first(), 0.0)
    assert course.open == set()
