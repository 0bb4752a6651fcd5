"""The sequences of one call as one stream. Each sequence has at most one frame in line. Frames are
taken in the order in which they came, so no sequence starves another. Guards the law that usage is
cumulative over the whole call: a prompt counts once, when its first sample begins, and output all
of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from workers.engines.base import Frame, FrameStream, TokenUsage


@dataclass(frozen=True, slots=True)
class ChoiceFrame:
    """A frame of the sequence `index`. `usage` is that of all sequences together."""

    index: int
    frame: Frame
    usage: TokenUsage


class Choices:
    """The frames of `streams`, of which `samples` in a row share a prompt. Iterating raises the
    error of any stream. The holder must `aclose` it, which closes all streams."""

    def __init__(self, streams: Sequence[FrameStream], *, samples: int = 1) -> None:
        self._streams = streams
        self._tally = Tally(samples)
        self._ready: asyncio.Queue[int] = asyncio.Queue()  # one place for each stream at most
        self._reading: dict[int, asyncio.Task[Frame | None]] = {}
        if len(streams) > 1:
            for index in range(len(streams)):
                self._read(index)

    def __aiter__(self) -> AsyncIterator[ChoiceFrame]:
        return self

    async def __anext__(self) -> ChoiceFrame:
        if len(self._streams) == 1:  # needs nobody to take turns
            frame = await anext(self._streams[0])
            return ChoiceFrame(0, frame, self._tally.counted(0, frame.usage))
        while self._reading:
            index = await self._ready.get()
            next_frame = self._reading.pop(index).result()
            if next_frame is None:
                continue
            if next_frame.finish_reason is None:
                self._read(index)
            return ChoiceFrame(index, next_frame, self._tally.counted(index, next_frame.usage))
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Close all streams. It waits for no engine, so it also completes inside a cancelled
        task."""
        reading = list(self._reading.values())
        self._reading.clear()
        for task in reading:
            task.cancel()
        try:
            if reading:
                await asyncio.wait(reading)  # they end in the next turn of the loop
        finally:
            await close_all(self._streams)

    def _read(self, index: int) -> None:
        task = asyncio.ensure_future(_next(self._streams[index]))
        task.add_done_callback(partial(self._line_up, index))
        self._reading[index] = task

    def _line_up(self, index: int, task: asyncio.Task[Frame | None]) -> None:
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio reports none that nobody came to take
        self._ready.put_nowait(index)


class Tally:
    """The usage of a call, from the usage that each of its sequences reports."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._begun: set[int] = set()
        self._output: dict[int, int] = {}
        self._busy_us: dict[int, int] = {}
        self._input = self._cached_input = self._output_sum = 0

    def counted(self, index: int, usage: TokenUsage) -> TokenUsage:
        """The usage of the call, given the latest usage of sequence `index`."""
        prompt = index // self._samples
        if prompt not in self._begun:
            self._begun.add(prompt)
            self._input += usage.input
            self._cached_input += usage.cached_input
        self._output_sum += usage.output - self._output.get(index, 0)
        self._output[index] = usage.output
        self._busy_us[index] = usage.busy_us
        busy_us = sum(self._busy_us.values())
        return TokenUsage(self._input, self._cached_input, self._output_sum, busy_us)


async def close_all(streams: Sequence[FrameStream]) -> None:
    """Close every stream, also when closing another one fails."""
    async with AsyncExitStack() as stack:
        for stream in streams:
            stack.push_async_callback(stream.aclose)


async def _next(stream: FrameStream) -> Frame | None:
    return await anext(stream, None)
