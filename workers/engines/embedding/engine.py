"""The engine that embeds. It batches the inputs of all calls by length on a thread of its own. Its
other side is on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from workers.engines.base import (
    ContextLengthExceeded,
    Embedding,
    EmbeddingFrame,
    EmbeddingRequest,
    EngineAsleep,
    EngineFailed,
    EngineOverloaded,
    EngineSettings,
    EngineStats,
    GenerationAborted,
    PromptInvalid,
    RequestInFlight,
    TokenUsage,
    UnsupportedParameter,
)
from workers.engines.embedding.inputs import InputQueue, WaitingInput
from workers.engines.memory import give_back
from workers.engines.sharing import between_us, shares_us
from workers.engines.stream import Stream
from workers.engines.thread import EngineThread

if TYPE_CHECKING:  # torch is imported by the thread that loads the model
    from workers.engines.embedding.encoder import Encoder


class RunningCall:
    """One request while its inputs wait and come back. Calls are compared by identity, because ids
    repeat."""

    def __init__(self, request: EmbeddingRequest, stream: Stream[EmbeddingFrame]) -> None:
        self.request = request
        self.stream = stream
        self.begun = False
        self.tokens_left = sum(map(len, request.inputs))
        self._tokens_done = 0
        self._busy_us = 0
        self._inputs_left = len(request.inputs)

    def frame(self, embeddings: Sequence[Embedding], busy_us: int) -> EmbeddingFrame:
        """The next frame, from what a batch computed for this call and its share of the time."""
        tokens = sum(len(self.request.inputs[each.index]) for each in embeddings)
        self._tokens_done += tokens
        self.tokens_left -= tokens
        self._inputs_left -= len(embeddings)
        self._busy_us += busy_us
        usage = TokenUsage(self._tokens_done, 0, 0, self._busy_us)
        return EmbeddingFrame(tuple(embeddings), usage, last=not self._inputs_left)


Batch = Sequence[WaitingInput[RunningCall]]
Embedded = dict[RunningCall, list[Embedding]]


class Computed(NamedTuple):
    """The vectors of a batch by call, its number of tokens, and each call's share of the time."""

    embedded: Embedded
    tokens: int
    busy_us: dict[RunningCall, int]


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """The encoder for the thread, and what the loop needs to know of it."""

    encoder: Encoder
    queue: InputQueue[RunningCall]
    context_tokens: int
    dimensions: int
    vocabulary: int

    @property
    def idle(self) -> bool:
        return not len(self.queue)


class EncoderEngine:
    def __init__(
        self, settings: EngineSettings, *, now_s: Callable[[], float] = time.perf_counter
    ) -> None:
        self._settings = settings
        self._now_s = now_s
        self._thread = EngineThread(
            load=partial(load, settings),
            turn=self._turn,
            on_break=self._break,
            model_path=settings.model_path,
        )
        self._model: LoadedEncoder | None = None
        self._context_tokens = settings.context_tokens
        self._open: dict[str, RunningCall] = {}
        self._broken: str | None = "not started"
        self._requests = self._batches = self._tokens = self._busy_us = 0

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    @property
    def dimensions(self) -> int:
        return self._loaded.dimensions

    @property
    def _loaded(self) -> LoadedEncoder:
        if self._model is None:
            raise EngineAsleep
        return self._model

    async def start(self) -> None:
        self._model = await self._thread.start()
        self._context_tokens = self._model.context_tokens
        self._broken = None

    async def sleep(self) -> None:
        assert not self._open, "an engine sleeps while nothing is open"
        self._model = None
        await self._thread.stop()
        await asyncio.to_thread(give_back)

    async def wake(self) -> None:
        try:
            await self.start()
        except Exception as error:
            self._broken = f"could not wake: {error}"
            raise

    def embed(self, request: EmbeddingRequest) -> Stream[EmbeddingFrame]:
        self._check(request)
        stream = Stream(merge, on_close=lambda: self._close(call))
        call = RunningCall(request, stream)
        self._open[request.request_id] = call
        self._requests += 1
        self._thread.order(partial(self._loaded.queue.add, call, request.inputs))
        return stream

    def abort(self, request_id: str) -> None:
        if call := self._open.get(request_id):
            self._close(call)
            call.stream.fail(GenerationAborted(request_id))

    def stats(self) -> EngineStats:
        running = sum(call.begun for call in self._open.values())
        return EngineStats(
            running=running,
            queued=len(self._open) - running,
            prefill_tokens_left=sum(call.tokens_left for call in self._open.values()),
            prefill_steps_total=self._batches,
            tokens_prefilled_total=self._tokens,
            requests_total=self._requests,
            busy_us_total=self._busy_us,
        )

    def health(self) -> str | None:
        if self._broken is None and not (self._model is None or self._thread.alive):
            return "the engine's thread has died"
        return self._broken

    async def stop(self) -> None:
        await self._thread.stop()
        self._break("the engine was stopped")

    def _check(self, request: EmbeddingRequest) -> None:
        if self._broken is not None:
            raise EngineFailed(self._broken)
        self._check_inputs(request.inputs)
        if request.dimensions is not None and request.dimensions > self.dimensions:
            raise UnsupportedParameter(
                f"the model's vectors have {self.dimensions} dimensions", param="dimensions"
            )
        if request.request_id in self._open:
            raise RequestInFlight(request.request_id)
        if len(self._open) >= self._settings.slots + self._settings.queue_max:
            raise EngineOverloaded(f"{len(self._open)} requests are running or waiting")
        waiting = sum(call.tokens_left for call in self._open.values())
        tokens = sum(map(len, request.inputs))
        if waiting and waiting + tokens > self._settings.waiting_tokens_max:
            raise EngineOverloaded(f"{waiting} tokens are waiting")

    def _check_inputs(self, inputs: Sequence[tuple[int, ...]]) -> None:
        if not inputs or not all(inputs):
            raise PromptInvalid("there is no input, or one without tokens")
        if min(map(min, inputs)) < 0 or max(map(max, inputs)) >= self._loaded.vocabulary:
            raise PromptInvalid("the input has tokens that are not in the model's vocabulary")
        longest = max(map(len, inputs))
        if longest > self.context_tokens:
            raise ContextLengthExceeded(
                prompt_tokens=longest, context_tokens=self.context_tokens, room_tokens=0
            )

    def _close(self, call: RunningCall) -> None:
        if self._open.get(call.request.request_id) is call:
            del self._open[call.request.request_id]
            self._thread.order(partial(self._loaded.queue.remove, call))

    def _begin(self, calls: set[RunningCall]) -> None:
        for call in calls:
            call.begun = True

    def _deliver(self, computed: Computed) -> None:
        self._batches += 1
        self._tokens += computed.tokens
        self._busy_us += sum(computed.busy_us.values())
        for call, embeddings in computed.embedded.items():
            frame = call.frame(embeddings, computed.busy_us[call])
            if self._open.get(call.request.request_id) is not call:
                continue  # closed meanwhile
            if frame.last:
                del self._open[call.request.request_id]
            call.stream.offer(frame)

    def _break(self, reason: str) -> None:
        self._broken = reason
        for call in self._open.values():
            call.stream.fail(EngineFailed(reason))
        self._open.clear()

    # ---- the engine's thread

    def _turn(self, loaded: LoadedEncoder, ordered: bool) -> None:
        batch = loaded.queue.take()
        if batch:
            self._thread.post(self._begin, {waiting.call for waiting in batch})
            start_s = self._now_s()
            by_call = embedded(loaded.encoder, batch)
            elapsed_us = between_us(start_s, self._now_s())
            self._thread.post(self._deliver, computed(by_call, batch, elapsed_us))


def embedded(encoder: Encoder, batch: Batch) -> Embedded:
    """The vectors of a batch, by call."""
    from workers.engines.embedding.encoder import shortened

    by_call: Embedded = {}
    for waiting, vector in zip(batch, encoder.vectors([w.token_ids for w in batch]), strict=True):
        data = shortened(vector, waiting.call.request.dimensions)
        by_call.setdefault(waiting.call, []).append(Embedding(waiting.index, data))
    return by_call


def computed(by_call: Embedded, batch: Batch, elapsed_us: int) -> Computed:
    """Share the time of a batch among its calls by their tokens."""
    tokens = [waiting.tokens for waiting in batch]
    busy_us = dict.fromkeys(by_call, 0)
    for waiting, share_us in zip(batch, shares_us(elapsed_us, tokens), strict=True):
        busy_us[waiting.call] += share_us
    return Computed(by_call, sum(tokens), busy_us)


def merge(frames: Sequence[EmbeddingFrame]) -> EmbeddingFrame:
    """The frames that a slow reader has not taken, as one. Usage is cumulative."""
    embeddings = tuple(each for frame in frames for each in frame.embeddings)
    return EmbeddingFrame(embeddings, frames[-1].usage, frames[-1].last)


def load(settings: EngineSettings) -> LoadedEncoder:
    import torch

    from workers.engines.embedding.checkpoint import open_checkpoint
    from workers.engines.embedding.encoder import Encoder

    torch.set_num_threads(settings.threads)
    checkpoint = open_checkpoint(settings.model_path)
    context_tokens = min(settings.context_tokens, checkpoint.context_tokens)
    encoder = Encoder(checkpoint)
    encoder.prove([token % checkpoint.vocabulary for token in range(1, min(17, context_tokens))])
    return LoadedEncoder(
        encoder=encoder,
        queue=InputQueue(batch_tokens_max=settings.batch_tokens_max),
        context_tokens=context_tokens,
        dimensions=checkpoint.dimensions,
        vocabulary=checkpoint.vocabulary,
    )
