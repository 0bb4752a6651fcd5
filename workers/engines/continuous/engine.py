"""The engine: a batch on a thread of its own, and the event loop's side of it. Computation never
runs on the event loop; orders go to the thread between steps, gained frames come back once a step,
and all streams live on the loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from workers.engines.base import (
    CheckpointUnsupported,
    ContextLengthExceeded,
    EngineError,
    EngineFailed,
    EngineOverloaded,
    EngineSettings,
    EngineStats,
    Frame,
    GenerationAborted,
    GenerationRequest,
    PromptInvalid,
    RequestInFlight,
)
from workers.engines.continuous.outbox import Outbox
from workers.engines.continuous.stream import Stream

if TYPE_CHECKING:  # torch is imported by the thread that loads the model
    from workers.engines.continuous.sequence import RunningSequence

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    sequence: RunningSequence
    stream: Stream


class Steps(Protocol):
    """What computes on the engine's thread: our own `Batch`, or another engine's."""

    context_tokens: int

    @property
    def idle(self) -> bool: ...

    def add(self, sequence: RunningSequence) -> None: ...

    def remove(self, sequence: RunningSequence) -> None: ...

    def step(self) -> list[RunningSequence]:
        """Everyone who gained a token."""
        ...

    def stats(self) -> EngineStats: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    batch: Steps
    vocabulary: int
    sequence: Callable[[GenerationRequest], RunningSequence]


Load = Callable[[EngineSettings], Loaded]


class ContinuousEngine:
    """`load` runs on the engine's thread and brings what computes there."""

    def __init__(
        self,
        settings: EngineSettings,
        *,
        load: Load | None = None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._settings = settings
        self._load = load or load_batch
        self._now_s = now_s
        self._open: dict[str, Running] = {}
        self._orders: deque[Callable[[], object]] = deque()
        self._work = Event()
        self._stopping = False
        self._broken: str | None = "not started"
        self._stats = EngineStats()

    @property
    def context_tokens(self) -> int:
        return self._loaded.batch.context_tokens

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        started = self._loop.create_future()
        self._thread = Thread(target=self._run, args=(started,), name="engine", daemon=True)
        self._thread.start()
        self._loaded = await started
        self._stats = self._loaded.batch.stats()
        self._broken = None

    def generate(self, request: GenerationRequest) -> Stream:
        self._check(request)
        stream = Stream(on_close=lambda: self._close(running))
        running = Running(self._loaded.sequence(request), stream)
        self._open[request.request_id] = running
        self._order(partial(self._loaded.batch.add, running.sequence))
        return stream

    def abort(self, request_id: str) -> None:
        if running := self._open.get(request_id):
            self._close(running)
            running.stream.fail(GenerationAborted(request_id))

    def stats(self) -> EngineStats:
        running = min(self._stats.running, len(self._open))
        return replace(self._stats, running=running, queued=len(self._open) - running)

    def health(self) -> str | None:
        if self._broken is None and not self._thread.is_alive():
            return "the engine's thread has died"
        return self._broken

    async def stop(self) -> None:
        self._stopping = True
        self._work.set()
        await asyncio.to_thread(self._thread.join)
        self._break("the engine was stopped")

    def _check(self, request: GenerationRequest) -> None:
        prompt_tokens = len(request.prompt_token_ids)
        if self._broken is not None:
            raise EngineFailed(self._broken)
        if not prompt_tokens:
            raise PromptInvalid("the prompt has no tokens")
        if (
            min(request.prompt_token_ids) < 0
            or max(request.prompt_token_ids) >= self._loaded.vocabulary
        ):
            raise PromptInvalid("the prompt has tokens that are not in the model's vocabulary")
        if prompt_tokens >= self.context_tokens:
            raise ContextLengthExceeded(
                prompt_tokens=prompt_tokens, context_tokens=self.context_tokens
            )
        if request.request_id in self._open:
            raise RequestInFlight(request.request_id)
        if len(self._open) >= self._settings.slots + self._settings.queue_max:
            raise EngineOverloaded(f"{len(self._open)} requests are running or waiting")

    def _close(self, running: Running) -> None:
        request_id = running.sequence.request.request_id
        if self._open.get(request_id) is running:
            del self._open[request_id]
            self._order(partial(self._loaded.batch.remove, running.sequence))

    def _order(self, order: Callable[[], object]) -> None:
        self._orders.append(order)
        self._work.set()

    def _deliver(self, frames: list[tuple[RunningSequence, Frame]], stats: EngineStats) -> None:
        self._stats = stats
        for sequence, frame in frames:
            running = self._open.get(sequence.request.request_id)
            if running is None or running.sequence is not sequence:
                continue  # closed meanwhile
            if frame.finish_reason is not None:
                del self._open[sequence.request.request_id]
            running.stream.offer(frame)

    def _break(self, reason: str) -> None:
        self._broken = reason
        for running in self._open.values():
            running.stream.fail(EngineFailed(reason))
        self._open.clear()

    # ---- the engine's thread

    def _run(self, started: asyncio.Future[Loaded]) -> None:
        try:
            loaded = self._load(self._settings)
        except Exception as error:
            failure = (
                error if isinstance(error, EngineError) else _unreadable(self._settings, error)
            )
            self._post(started.set_exception, failure)
            return
        self._post(started.set_result, loaded)
        try:
            outbox = Outbox(interval_s=self._settings.frame_interval_s, now_s=self._now_s)
            while not self._stopping:
                self._turn(loaded.batch, outbox)
        except Exception as error:
            log.exception("a step of the engine failed")
            self._post(self._break, f"a step of the engine failed: {error!r}")

    def _turn(self, batch: Steps, outbox: Outbox) -> None:
        if batch.idle and not self._orders:
            self._work.wait()
        self._work.clear()
        ordered = bool(self._orders)
        while self._orders:
            self._orders.popleft()()
        if not batch.idle:
            outbox.add(batch.step())
        if ordered or batch.idle or outbox.due:
            self._post(self._deliver, outbox.frames(), batch.stats())

    def _post(self, callback: Callable[..., object], *args: object) -> None:
        self._loop.call_soon_threadsafe(callback, *args)


def load_batch(settings: EngineSettings) -> Loaded:
    import torch

    from workers.engines.continuous.batch import Batch
    from workers.engines.continuous.checkpoint import open_checkpoint
    from workers.engines.continuous.sequence import RunningSequence

    torch.set_num_threads(settings.threads)
    checkpoint = open_checkpoint(settings.model_path)
    batch = Batch(checkpoint, settings)
    batch.runner.prove([token % checkpoint.vocabulary for token in range(1, 9)])
    return Loaded(
        batch=batch,
        vocabulary=checkpoint.vocabulary,
        sequence=partial(
            RunningSequence,
            context_tokens=batch.context_tokens,
            eos_token_ids=checkpoint.eos_token_ids,
            decode=checkpoint.decode,
            raw=checkpoint.raw,
        ),
    )


def _unreadable(settings: EngineSettings, error: Exception) -> CheckpointUnsupported:
    failure = CheckpointUnsupported(f"{settings.model_path} could not be loaded: {error!r}")
    failure.__cause__ = error
    return failure
