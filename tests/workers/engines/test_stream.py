import asyncio
from dataclasses import replace

import pytest

from workers.engines.base import (
    EngineFailed,
    FinishReason,
    Frame,
    ScoredToken,
    TokenLogprobs,
    TokenUsage,
)
from workers.engines.continuous.merging import merge
from workers.engines.stream import Stream


def frame(position: int, text: str, reason: FinishReason | None = None) -> Frame:
    return Frame(text, (100 + position,), TokenUsage(2, 1, position), reason)


def open_stream() -> tuple[Stream[Frame], list[str]]:
    closed: list[str] = []
    return Stream(merge, on_close=lambda: closed.append("closed")), closed


async def test_a_prompt_reader_gets_every_frame() -> None:
    stream, _ = open_stream()
    stream.offer(frame(1, "a"))
    assert (await anext(stream)).text == "a"
    stream.offer(frame(2, "b", FinishReason.STOP))
    assert (await anext(stream)).finish_reason is FinishReason.STOP
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_what_a_slow_reader_left_is_one_frame_that_counts_every_token() -> None:
    stream, _ = open_stream()
    for position, text in enumerate("abc", start=1):
        stream.offer(frame(position, text))
    assert await anext(stream) == Frame("abc", (101, 102, 103), TokenUsage(2, 1, 3))


async def test_merged_frames_keep_the_log_probabilities_of_every_token() -> None:
    stream, _ = open_stream()
    entries = [TokenLogprobs(ScoredToken(n, "a", b"a", -1.0 * n)) for n in (101, 102)]
    for position, entry in enumerate(entries, start=1):
        stream.offer(replace(frame(position, "a"), logprobs=(entry,)))
    assert (await anext(stream)).logprobs == tuple(entries)


async def test_a_waiting_reader_is_woken() -> None:
    stream, _ = open_stream()
    reading = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not reading.done()
    stream.offer(frame(1, "a"))
    assert (await reading).text == "a"


async def test_a_failure_comes_after_the_frames_before_it() -> None:
    stream, _ = open_stream()
    stream.offer(frame(1, "a"))
    stream.fail(EngineFailed("broken"))
    assert (await anext(stream)).text == "a"
    with pytest.raises(EngineFailed):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_closing_tells_the_engine_and_ends_the_stream() -> None:
    stream, closed = open_stream()
    stream.offer(frame(1, "a"))
    await stream.aclose()
    assert closed
    assert [each async for each in stream] == []
