"""The sequences of one call as one stream. Each sequence has at most one frame in line. Frames are
taken in the order in which they came, so no sequence starves another. Guards the law that usage is
cumulative over the whole call: a prompt counts once, when its first sample begins, and output all
of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from workers.deployments.bodies import Resume
from workers.engines.base import Frame, FrameStream, TokenUsage


@dataclass(frozen=True, slots=True)
class ChoiceFrame:
    """A frame of the sequence `index`. `usage` is that of all sequences together."""

    index: int
    frame: Frame
    usage: TokenUsage


class Choices:
    """The frames of `streams`, by the index of their choice. Iterating raises the error of any
    stream. The holder must `aclose` it, which closes all streams."""

    def __init__(self, streams: Mapping[int, FrameStream], tally: Tally) -> None:
        self._streams = streams
        self._tally = tally
        self._ready: asyncio.Queue[int] = asyncio.Queue()  # one place for each stream at most
        self._reading: dict[int, asyncio.Task[Frame | None]] = {}
        if len(streams) > 1:
            for index in streams:
                self._read(index)
        else:
            [self._only] = streams.items()

    def __aiter__(self) -> AsyncIterator[ChoiceFrame]:
        return self

    async def __anext__(self) -> ChoiceFrame:
        if len(self._streams) == 1:  # needs nobody to take turns
            index, stream = self._only
            frame = await anext(stream)
            return ChoiceFrame(index, frame, self._tally.counted(index, frame.usage))
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
            await close_all(self._streams.values())

    def _read(self, index: int) -> None:
        task = asyncio.ensure_future(_next(self._streams[index]))
        task.add_done_callback(partial(self._line_up, index))
        self._reading[index] = task

    def _line_up(self, index: int, task: asyncio.Task[Frame | None]) -> None:
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio reports none that nobody came to take
        self._ready.put_nowait(index)


class Tally:
    """The usage of a call, from the usage that each of its sequences reports. `samples` in a row
    share a prompt. `resume` is how far the call had come elsewhere, which counts as it was
    counted there."""

    def __init__(self, samples: int = 1, resume: Resume | None = None) -> None:
        self._samples = samples
        self._output: dict[int, int] = {}
        if resume is not None:
            self._output = {n: each.output for n, each in enumerate(resume.choices) if each.output}
        self._begun = {index // samples for index in self._output}
        self._busy_us: dict[int, int] = {}
        self._input = resume.input if resume else 0
        self._cached_input = resume.cached_input if resume else 0
        self._output_sum = sum(self._output.values())

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


async def close_all(streams: Iterable[FrameStream]) -> None:
    """Close every stream, also when closing another one fails."""
    async with AsyncExitStack() as stack:
        for stream in streams:
            stack.push_async_callback(stream.aclose)


async def _next(stream: FrameStream) -> Frame | None:
    return await anext(stream, None)
