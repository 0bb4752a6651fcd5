"""One wait for a first token, and perhaps a second one beside it.

The first runs in the task of the call, as if it were alone; a timer starts the second one in a task
of its own, which never outlives `run`. Whichever has its first token first is taken, and the other
one is cancelled at once. Knows no place and no money.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, NamedTuple, TypeVar

from gateway.upstream.answer import Rejected, UpstreamError

log = logging.getLogger(__name__)

Begun = TypeVar("Begun")


class Taken(NamedTuple, Generic[Begun]):
    begun: Begun
    is_second: bool


class Race(Generic[Begun]):
    """`second` answers None where no second attempt is made or it came to nothing. `overtake` is
    told, before anything is cancelled, whether the second one was taken. `drop` closes an attempt
    that nobody takes any more."""

    def __init__(
        self,
        second: Callable[[], Coroutine[Any, Any, Begun | None]],
        overtake: Callable[[bool], None],
        drop: Callable[[Begun], Awaitable[None]],
    ) -> None:
        self._make_second = second
        self._overtake = overtake
        self._drop = drop
        self._second: asyncio.Task[Begun | None] | None = None
        self._is_over = False
        """The first one has ended."""
        self._is_cut_short = False
        """The first one is cancelled, as the second one is taken."""

    async def run(self, first: Awaitable[Begun], after_s: float) -> Taken[Begun]:
        """Raises what the first one raises. Where it fails while the second one is under way, that
        one is waited for."""
        task = asyncio.current_task()
        assert task is not None, "a call runs in a task"
        cancels = task.cancelling()
        timer = asyncio.get_running_loop().call_later(after_s, self._begin, task, cancels)
        try:
            begun = await first
        except asyncio.CancelledError:
            if self._is_cut_short and task.uncancel() <= cancels:
                return self._take_second()
            await self._end()
            raise
        except UpstreamError as failed:
            if (second := await self._second_after(failed)) is not None:
                return Taken(second, is_second=True)
            raise
        except BaseException:
            await self._end()
            raise
        finally:
            self._is_over = True
            timer.cancel()
        return await self._take_first(begun)

    def _begin(self, task: "asyncio.Task[Any]", cancels: int) -> None:
        if task.cancelling() > cancels:
            return
        self._second = asyncio.ensure_future(self._make_second())
        self._second.add_done_callback(lambda _: self._cut_short(task, cancels))

    def _cut_short(self, task: "asyncio.Task[Any]", cancels: int) -> None:
        """The second one has ended. A call whose caller departs goes on as if it were alone."""
        if self._is_over or task.cancelling() > cancels or self._result() is None:
            return
        self._overtake(True)
        self._is_cut_short = True
        task.cancel()

    def _result(self) -> Begun | None:
        """Of a second one that has ended. A mistake of ours there fails no call."""
        second = self._second
        if second is None or second.cancelled():
            return None
        if (failed := second.exception()) is not None:
            log.error("a second attempt failed unexpectedly", exc_info=failed)
            return None
        return second.result()

    def _take_second(self) -> Taken[Begun]:
        begun = self._result()
        assert begun is not None, "it was cut short for a second one that has begun"
        return Taken(begun, is_second=True)

    async def _take_first(self, begun: Begun) -> Taken[Begun]:
        """The first one has its first token; a caller that departs meanwhile gets nothing of it."""
        if self._second is not None:
            self._overtake(False)
            try:
                await self._end()
            except asyncio.CancelledError:
                await self._drop(begun)
                raise
        return Taken(begun, is_second=False)

    async def _second_after(self, failed: UpstreamError) -> Begun | None:
        """What became of the second one, where the first failed and another one may take the
        call."""
        self._is_over = True
        if self._second is None:
            return None
        if isinstance(failed, Rejected):
            await self._end()
            return None
        try:
            await asyncio.wait({self._second})
        except asyncio.CancelledError:
            await self._end()
            raise
        return self._result()

    async def _end(self) -> None:
        """Cancel the second one and wait until nothing of it is open; a cancellation of the call
        meanwhile is raised after that."""
        self._is_over = True
        second, departed = self._second, None
        if second is None:
            return
        second.cancel()
        while not second.done():
            try:
                await asyncio.wait({second})
            except asyncio.CancelledError as cancelled:
                departed = cancelled
        if (begun := self._result()) is not None:
            await self._drop(begun)
        if departed is not None:
            raise departed
