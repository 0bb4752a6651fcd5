"""The thread on which an engine computes, and how the event loop speaks with it. Computation never
runs on the loop. Orders go to the thread between turns. Its results come back as callbacks."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Generic, Protocol, TypeVar

from workers.engines.base import CheckpointUnsupported, EngineError, EngineFailed

log = logging.getLogger(__name__)


class Turns(Protocol):
    """The computation on the thread. Nothing else touches it but the orders given to the thread."""

    @property
    def idle(self) -> bool: ...


Loaded = TypeVar("Loaded", bound=Turns)


class EngineThread(Generic[Loaded]):
    """`load` and `turn` run on the thread, `on_break` on the loop that started it. It may be
    started again after a stop, and loads anew then."""

    def __init__(
        self,
        *,
        load: Callable[[], Loaded],
        turn: Callable[[Loaded, bool], None],
        on_break: Callable[[str], None],
        model_path: Path,
    ) -> None:
        self._load = load
        self._turn = turn
        self._on_break = on_break
        self._model_path = model_path
        self._orders: deque[Callable[[], object]] = deque()
        self._work = Event()
        self._stopping = False

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    async def start(self) -> Loaded:
        """Start, and return once the model is loaded. Raises EngineError."""
        self._loop = asyncio.get_running_loop()
        self._stopping = False
        self._orders.clear()
        started: asyncio.Future[Loaded] = self._loop.create_future()
        self._thread = Thread(target=self._run, args=(started,), name="engine", daemon=True)
        self._thread.start()
        return await started

    def order(self, order: Callable[[], object]) -> None:
        """Run this on the thread before its next turn. Called from the loop."""
        self._orders.append(order)
        self._work.set()

    async def ask(self, order: Callable[[], object]) -> None:
        """Run this on the thread before its next turn, and return once it is done. Raises
        EngineFailed in place of what it raises."""
        done: asyncio.Future[None] = self._loop.create_future()

        def answer() -> None:
            try:
                order()
            except Exception as error:
                log.exception("an order to the engine failed")
                self.post(done.set_exception, EngineFailed(repr(error)))
            else:
                self.post(done.set_result, None)

        self.order(answer)
        await done

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Run this on the loop. Called from the thread."""
        self._loop.call_soon_threadsafe(callback, *args)

    async def stop(self) -> None:
        self._stopping = True
        self._work.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self, started: asyncio.Future[Loaded]) -> None:
        try:
            loaded = self._load()
        except Exception as error:
            is_own = isinstance(error, EngineError)
            self.post(started.set_exception, error if is_own else self._unreadable(error))
            return
        self.post(started.set_result, loaded)
        try:
            while not self._stopping:
                self._turn(loaded, self._take_orders(loaded))
        except Exception as error:
            log.exception("a step of the engine failed")
            self.post(self._on_break, f"a step of the engine failed: {error!r}")

    def _take_orders(self, loaded: Loaded) -> bool:
        """Run the orders, and say whether there were any. It waits for some when there is nothing
        else to do."""
        if loaded.idle and not self._orders:
            self._work.wait()
        self._work.clear()
        ordered = bool(self._orders)
        while self._orders:
            self._orders.popleft()()
        return ordered

    def _unreadable(self, error: Exception) -> CheckpointUnsupported:
        failure = CheckpointUnsupported(f"{self._model_path} could not be loaded: {error!r}")
        failure.__cause__ = error
        return failure
