"""The frames of one request, between the engine and one reader on the same event loop. What a slow
reader has not taken is merged into one frame, so a stream never holds more than one answer's
tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from workers.engines.base import EngineError, Frame, TokenLogprobs


class Stream:
    """Implements `FrameStream`; the engine calls `offer` and `fail`, on the event loop."""

    def __init__(self, on_close: Callable[[], None]) -> None:
        self._on_close = on_close
        self._pending: list[Frame] = []
        self._error: EngineError | None = None
        self._ended = False
        self._ready = asyncio.Event()

    def offer(self, frame: Frame) -> None:
        self._pending.append(frame)
        self._ready.set()

    def fail(self, error: EngineError) -> None:
        self._error = error
        self._ready.set()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if self._ended:
            raise StopAsyncIteration
        await self._ready.wait()
        if self._pending:
            return self._take()
        self._ended = True
        assert self._error is not None, "a stream is ready when it has a frame or an error"
        raise self._error

    async def aclose(self) -> None:
        """Never waits, so it also completes inside a cancelled task."""
        self._ended = True
        self._on_close()

    def _take(self) -> Frame:
        frame = merge(self._pending)
        self._pending = []
        self._ended = frame.finish_reason is not None
        if self._error is None:
            self._ready.clear()
        return frame


def merge(frames: Sequence[Frame]) -> Frame:
    """Usage is cumulative, so the last frame's is everyone's."""
    if len(frames) == 1:
        return frames[0]
    return Frame(
        text="".join(frame.text for frame in frames),
        token_ids=tuple(token for frame in frames for token in frame.token_ids),
        usage=frames[-1].usage,
        finish_reason=frames[-1].finish_reason,
        logprobs=_joined([frame.logprobs for frame in frames]),
    )


def _joined(
    parts: Sequence[tuple[TokenLogprobs, ...] | None],
) -> tuple[TokenLogprobs, ...] | None:
    """All frames of a request have theirs, or none has."""
    asked = [part for part in parts if part is not None]
    return tuple(entry for part in asked for entry in part) if asked else None
