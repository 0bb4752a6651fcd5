"""Sequences of one call as one stream; the streams are played by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from workers.deployments.choices import Choices, Tally
from workers.engines.base import EngineFailed, FinishReason, Frame, TokenUsage

BUSY_US = 10
"""What a token takes of the replica."""


class Played:
    """A stream that gives a frame when it is told to."""

    def __init__(self, *, prompt: int = 3, cached: int = 0) -> None:
        self.closed = False
        self._prompt = TokenUsage(prompt - cached, cached, 0)
        self._output = 0
        self._frames: asyncio.Queue[Frame | Exception] = asyncio.Queue()

    def gain(self, text: str, *, last: bool = False) -> None:
        self._output += 1
        shares = BUSY_US * self._output
        usage = TokenUsage(self._prompt.input, self._prompt.cached_input, self._output, shares)
        reason = FinishReason.STOP if last else None
        self._frames.put_nowait(Frame(text, (self._output,), usage, reason))

    def fail(self, error: Exception) -> None:
        self._frames.put_nowait(error)

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        given = await self._frames.get()
        if isinstance(given, Exception):
            raise given
        return given

    async def aclose(self) -> None:
        self.closed = True


async def test_every_frame_comes_and_the_end_only_after_the_last_of_all() -> None:
    streams = [Played(), Played(), Played()]
    for number, stream in enumerate(streams):
        for letter in "abc":
            stream.gain(f"{letter}{number}", last=letter == "c")
    async with aclosing(Choices(dict(enumerate(streams)), Tally())) as choices:
        told = [(choice.index, choice.frame.text) async for choice in choices]
    for index in range(3):
        assert [text for of, text in told if of == index] == [f"{x}{index}" for x in "abc"]
    assert all(stream.closed for stream in streams)


async def test_one_that_is_always_ready_starves_no_other() -> None:
    eager, other = Played(), Played()
    for _ in range(50):
        eager.gain("e")
    async with aclosing(Choices({0: eager, 1: other}, Tally())) as choices:
        for _ in range(5):
            await anext(choices)
        other.gain("o")
        soon = [(await anext(choices)).index for _ in range(4)]
    assert 1 in soon


async def test_usage_counts_each_prompt_once_when_it_begins_and_all_output() -> None:
    first, again = Played(prompt=5, cached=2), Played(prompt=5)
    second, unheard = Played(prompt=7), Played(prompt=7)
    async with aclosing(
        Choices(dict(enumerate([first, again, second, unheard])), Tally(2))
    ) as choices:

        async def after(stream: Played) -> TokenUsage:
            stream.gain("x")
            return (await anext(choices)).usage

        assert await after(first) == TokenUsage(3, 2, 1)
        assert await after(again) == TokenUsage(3, 2, 2)
        assert await after(first) == TokenUsage(3, 2, 3)
        assert await after(second) == TokenUsage(10, 2, 4)
        assert await after(unheard) == TokenUsage(10, 2, 5)


async def test_the_share_of_a_call_is_that_of_all_its_sequences() -> None:
    streams = [Played(), Played()]
    async with aclosing(Choices(dict(enumerate(streams)), Tally(2))) as choices:
        for number, stream in enumerate([*streams, streams[0]], start=1):
            stream.gain("x")
            assert (await anext(choices)).usage.busy_us == BUSY_US * number


async def test_a_prompt_counts_as_the_first_of_its_samples_had_it() -> None:
    late, early = Played(prompt=5), Played(prompt=5, cached=4)
    async with aclosing(Choices({0: late, 1: early}, Tally(2))) as choices:
        early.gain("x")
        assert (await anext(choices)).usage == TokenUsage(1, 4, 1)
        late.gain("x")
        assert (await anext(choices)).usage == TokenUsage(1, 4, 2)


async def test_one_that_breaks_breaks_the_call_and_all_are_closed() -> None:
    streams = [Played(), Played()]
    streams[1].fail(EngineFailed("broken"))
    with pytest.raises(EngineFailed):
        async with aclosing(Choices(dict(enumerate(streams)), Tally())) as choices:
            await anext(choices)
    assert all(stream.closed for stream in streams)


@pytest.mark.parametrize("count", [1, 4])
async def test_closing_inside_a_cancelled_task_closes_all(count: int) -> None:
    streams = [Played() for _ in range(count)]

    async def read() -> None:
        async with aclosing(Choices(dict(enumerate(streams)), Tally())) as choices:
            await anext(choices)

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert all(stream.closed for stream in streams)
    assert asyncio.all_tasks() == {asyncio.current_task()}
