"""The frames of one request, between an engine and one reader on the same event loop. Frames that a
slow reader has not taken are merged into one, so a stream never holds more than one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from workers.engines.base import EngineError


class Ending(Protocol):
    @property
    def last(self) -> bool: ...


F = TypeVar("F", bound=Ending)


class Stream(Generic[F]):
    """Implements the streams of `base`. The engine calls `offer` and `fail`, on the event loop."""

    def __init__(self, merge: Callable[[Sequence[F]], F], *, on_close: Callable[[], None]) -> None:
        self._merge = merge
        self._on_close = on_close
        self._pending: list[F] = []
        self._error: EngineError | None = None
        self._ended = False
        self._ready = asyncio.Event()

    def offer(self, frame: F) -> None:
        self._pending.append(frame)
        self._ready.set()

    def fail(self, error: EngineError) -> None:
        self._error = error
        self._ready.set()

    def __aiter__(self) -> AsyncIterator[F]:
        return self

    async def __anext__(self) -> F:
        if self._ended:
            raise StopAsyncIteration
        await self._ready.wait()
        if self._pending:
            return self._take()
        self._ended = True
        assert self._error is not None, "a stream is ready when it has a frame or an error"
        raise self._error

    async def aclose(self) -> None:
        """Close the stream. It never waits, so it also completes inside a cancelled task."""
        self._ended = True
        self._on_close()

    def _take(self) -> F:
        frame = self._pending[0] if len(self._pending) == 1 else self._merge(self._pending)
        self._pending = []
        self._ended = frame.last
        if self._error is None:
            self._ready.clear()
        return frame
