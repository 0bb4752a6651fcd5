"""The engine: a batch on a thread of its own, and its side on the event loop. New frames come back
once a step, and all streams live on the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from workers.engines.base import (
    ContextLengthExceeded,
    EngineAsleep,
    EngineFailed,
    EngineOverloaded,
    EngineSettings,
    EngineStats,
    Frame,
    GenerationAborted,
    GenerationRequest,
    PromptInvalid,
    RequestInFlight,
    UnsupportedParameter,
    totals_of,
)
from workers.engines.continuous.merging import merge
from workers.engines.continuous.outbox import Outbox
from workers.engines.continuous.outlook import Outlook
from workers.engines.forms import Constraint, Guide
from workers.engines.guides import Compiled, Guides
from workers.engines.memory import give_back
from workers.engines.stream import Stream
from workers.engines.thread import EngineThread

if TYPE_CHECKING:  # torch is imported by the thread that loads the model
    from workers.engines.continuous.sequence import RunningSequence


RESUME = "sluice.resume"
"""The field of a worker's body that an answer's prefix comes in."""


@dataclass(frozen=True, slots=True)
class Running:
    sequence: RunningSequence
    stream: Stream[Frame]


class Steps(Protocol):
    """The computation on the engine's thread: our own `Batch`, or another engine's."""

    context_tokens: int

    @property
    def idle(self) -> bool: ...

    def add(self, sequence: RunningSequence) -> None: ...

    def remove(self, sequence: RunningSequence) -> None: ...

    def step(self) -> list[RunningSequence]:
        """Do one step. Returns every sequence that gained a token."""
        ...

    def stats(self) -> EngineStats: ...


class Sleep(Protocol):
    """How a model that stays lets go of its memory. Called on the engine's thread."""

    def sleep(self) -> None: ...

    def wake(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    batch: Steps
    vocabulary: int
    sequence: Callable[[GenerationRequest], RunningSequence]
    guides: Guides
    resumable: Callable[[GenerationRequest], bool] = lambda request: True
    """Whether an answer of this kind can go on behind a prefix exactly."""
    own_sleep: Sleep | None = None
    """None: all of the model goes, and is loaded again."""

    @property
    def idle(self) -> bool:
        return self.batch.idle


Load = Callable[[EngineSettings], Loaded]


class ContinuousEngine:
    """`load` runs on the engine's thread and returns what computes there."""

    def __init__(
        self,
        settings: EngineSettings,
        *,
        load: Load | None = None,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._settings = settings
        self._outbox = Outbox(interval_s=settings.frame_interval_s, now_s=now_s)
        self._thread = EngineThread(
            load=partial(load or load_batch, settings),
            turn=self._turn,
            on_break=self._break,
            model_path=settings.model_path,
        )
        self._model: Loaded | None = None
        self._context_tokens = settings.context_tokens
        self._open: dict[str, Running] = {}
        self._broken: str | None = "not started"
        self._stats = EngineStats()
        self._totals_before = EngineStats()
        self._asleep = False
        self._outlook = Outlook()

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    @property
    def _loaded(self) -> Loaded:
        if self._model is None:
            raise EngineAsleep
        return self._model

    async def start(self) -> None:
        self._model = await self._thread.start()
        self._context_tokens = self._model.batch.context_tokens
        self._stats = self._model.batch.stats()
        self._broken = None

    async def sleep(self) -> None:
        assert not self._open, "an engine sleeps while nothing is open"
        self._asleep = True
        await self._let_go()

    async def wake(self) -> None:
        try:
            await self._take_up()
        except Exception as error:
            self._broken = f"could not wake: {error}"
            raise
        self._asleep = False

    async def _let_go(self) -> None:
        """Let go of the model. What comes to life again counts on from its totals."""
        if own_sleep := self._loaded.own_sleep:
            await self._thread.ask(own_sleep.sleep)
            return
        await self._thread.stop()
        self._totals_before = EngineStats(**totals_of(self.stats()))
        self._stats = EngineStats()
        self._model = None
        await asyncio.to_thread(give_back)

    async def _take_up(self) -> None:
        if self._model is not None and self._model.own_sleep:
            await self._thread.ask(self._model.own_sleep.wake)
        else:
            await self.start()

    def generate(self, request: GenerationRequest) -> Stream[Frame]:
        self._check(request)
        stream = Stream(merge, on_close=lambda: self._close(running))
        running = Running(self._sequence(request), stream)
        self._open[request.request_id] = running
        self._thread.order(partial(self._loaded.batch.add, running.sequence))
        return stream

    def _sequence(self, request: GenerationRequest) -> RunningSequence:
        sequence = self._loaded.sequence(request)
        if sequence.finish_reason is not None:
            raise UnsupportedParameter("the answer is over already", param=RESUME)
        return sequence

    async def constrain(self, guide: Guide) -> Constraint:
        self._check_life()
        return await self._loaded.guides.compiled(guide)

    def abort(self, request_id: str) -> None:
        if running := self._open.get(request_id):
            self._close(running)
            running.stream.fail(GenerationAborted(request_id))

    def stats(self) -> EngineStats:
        running = min(self._stats.running, len(self._open))
        sequences = [each.sequence for each in self._open.values()]
        tokens_left = self._outlook.tokens_left
        before = totals_of(self._totals_before)
        return replace(
            self._stats,
            **{name: total + before[name] for name, total in totals_of(self._stats).items()},
            running=running,
            queued=len(self._open) - running,
            prefill_tokens_left=sum(each.prefill_tokens_left for each in sequences),
            output_tokens_left=sum(
                tokens_left(each.output_tokens, each.output_tokens_max) for each in sequences
            ),
        )

    def health(self) -> str | None:
        if self._broken is None and not (self._asleep or self._thread.alive):
            return "the engine's thread has died"
        return self._broken

    async def stop(self) -> None:
        await self._thread.stop()
        self._break("the engine was stopped")

    def _check(self, request: GenerationRequest) -> None:
        prompt_tokens = len(request.prompt_token_ids)
        self._check_life()
        if not prompt_tokens:
            raise PromptInvalid("the prompt has no tokens")
        if (
            min(request.prompt_token_ids) < 0
            or max(request.prompt_token_ids) >= self._loaded.vocabulary
        ):
            raise PromptInvalid("the prompt has tokens that are not in the model's vocabulary")
        for param in ("logit_bias", "stop_token_ids"):
            if any(token >= self._loaded.vocabulary for token in getattr(request, param)):
                raise UnsupportedParameter(
                    f"the model's vocabulary lacks a token of '{param}'", param=param
                )
        if request.min_tokens and request.constraint is not None:
            raise UnsupportedParameter(
                "'min_tokens' cannot be held to where the form of an answer says where it ends",
                param="min_tokens",
            )
        if request.answer_prefix:
            self._check_prefix(request)
        if prompt_tokens >= self.context_tokens:
            raise ContextLengthExceeded(
                prompt_tokens=prompt_tokens, context_tokens=self.context_tokens
            )
        if request.request_id in self._open:
            raise RequestInFlight(request.request_id)
        if len(self._open) >= self._settings.slots + self._settings.queue_max:
            raise EngineOverloaded(f"{len(self._open)} requests are running or waiting")

    def _check_life(self) -> None:
        if self._broken is not None:
            raise EngineFailed(self._broken)
        if self._asleep:
            raise EngineAsleep

    def _check_prefix(self, request: GenerationRequest) -> None:
        if not self._loaded.resumable(request):
            raise UnsupportedParameter("such an answer cannot go on exactly", param=RESUME)
        vocabulary = self._loaded.vocabulary
        if any(not 0 <= token < vocabulary for ids in request.answer_prefix for token in ids):
            message = "the answer has tokens that are not in the model's vocabulary"
            raise UnsupportedParameter(message, param=RESUME)

    def _close(self, running: Running) -> None:
        request_id = running.sequence.request.request_id
        if self._open.get(request_id) is running:
            del self._open[request_id]
            self._thread.order(partial(self._loaded.batch.remove, running.sequence))

    def _deliver(self, frames: list[tuple[RunningSequence, Frame]], stats: EngineStats) -> None:
        self._stats = stats
        for sequence, frame in frames:
            running = self._open.get(sequence.request.request_id)
            if running is None or running.sequence is not sequence:
                continue  # closed meanwhile
            if frame.finish_reason is not None:
                del self._open[sequence.request.request_id]
                self._outlook.ended(frame.position)
            running.stream.offer(frame)

    def _break(self, reason: str) -> None:
        self._broken = reason
        for running in self._open.values():
            running.stream.fail(EngineFailed(reason))
        self._open.clear()

    # ---- the engine's thread

    def _turn(self, loaded: Loaded, ordered: bool) -> None:
        batch, outbox = loaded.batch, self._outbox
        if not batch.idle:
            outbox.add(batch.step())
        if ordered or batch.idle or outbox.due:
            self._thread.post(self._deliver, outbox.frames(), batch.stats())


def load_batch(settings: EngineSettings) -> Loaded:
    import torch

    from workers.engines.continuous.batch import Batch
    from workers.engines.continuous.checkpoint import open_checkpoint, tokenizer_source
    from workers.engines.continuous.sequence import RunningSequence

    torch.set_num_threads(settings.threads)
    checkpoint = open_checkpoint(settings.model_path)
    batch = Batch(checkpoint, settings)
    batch.runner.prove([token % checkpoint.vocabulary for token in range(1, 9)])

    def sequence(request: GenerationRequest) -> RunningSequence:
        constraint = request.constraint
        assert constraint is None or isinstance(constraint, Compiled), "made by this engine"
        return RunningSequence(
            request,
            context_tokens=batch.context_tokens,
            eos_token_ids=checkpoint.eos_token_ids,
            decode=checkpoint.decode,
            raw=checkpoint.raw,
            matcher=constraint.matcher() if constraint else None,
        )

    guides = Guides(
        partial(tokenizer_source, settings.model_path),
        vocabulary=checkpoint.vocabulary,
        eos_token_ids=checkpoint.eos_token_ids,
    )
    return Loaded(batch, checkpoint.vocabulary, sequence, guides)
