"""An engine that plays a script, for tests of what stands in front of one: it can be slow, full,
broken or endless. Nothing in the product names it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from workers.engines.base import (
    EngineAsleep,
    EngineError,
    EngineFailed,
    EngineStats,
    FinishReason,
    Frame,
    GenerationAborted,
    GenerationRequest,
    TokenUsage,
)
from workers.engines.forms import Guide

Scripted = Frame | EngineError
WORD_US = 70


class ScriptedStream:
    """Plays its script. If that did not end the answer, it waits for an abort."""

    def __init__(self, engine: ScriptedEngine, request_id: str) -> None:
        self._engine = engine
        self._request_id = request_id
        self._script = iter(engine.script)
        self.aborted = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        for step in self._script:
            if isinstance(step, EngineError):
                raise step
            return step
        if self._engine.ends:
            raise StopAsyncIteration
        await self.aborted.wait()
        raise GenerationAborted(self._request_id)

    async def aclose(self) -> None:
        self._engine.open.pop(self._request_id, None)


@dataclass(frozen=True, slots=True)
class ScriptedConstraint:
    """Does not hold the answer to its guide: the script alone decides the text."""

    guide: Guide


class ScriptedEngine:
    def __init__(
        self,
        script: Sequence[Scripted],
        *,
        ends: bool = True,
        refusal: EngineError | None = None,
        broken: str | None = None,
        guide_refusal: EngineError | None = None,
    ) -> None:
        self.script = script
        self.ends = ends
        self.refusal = refusal
        self.broken = broken
        self.guide_refusal = guide_refusal
        self.open: dict[str, ScriptedStream] = {}
        self.requests: list[GenerationRequest] = []
        self.aborted: list[str] = []
        self.context_tokens = 1024
        self.asleep = False

    async def start(self) -> None:
        if self.broken is not None:
            raise EngineFailed(self.broken)

    async def sleep(self) -> None:
        self.asleep = True

    async def wake(self) -> None:
        await self.start()
        self.asleep = False

    def generate(self, request: GenerationRequest) -> ScriptedStream:
        if self.asleep:
            raise EngineAsleep
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)
        stream = ScriptedStream(self, request.request_id)
        self.open[request.request_id] = stream
        return stream

    async def constrain(self, guide: Guide) -> ScriptedConstraint:
        if self.guide_refusal is not None:
            raise self.guide_refusal
        return ScriptedConstraint(guide)

    def abort(self, request_id: str) -> None:
        self.aborted.append(request_id)
        if stream := self.open.get(request_id):
            stream.aborted.set()

    def stats(self) -> EngineStats:
        return EngineStats(running=len(self.open), requests_total=len(self.requests))

    def health(self) -> str | None:
        return self.broken

    async def stop(self) -> None: ...


def word_frames(*words: str) -> list[Frame]:
    """An answer of one token per word that ends with `stop`; each takes WORD_US of the replica."""
    reasons = [None] * (len(words) - 1) + [FinishReason.STOP]
    return [
        Frame(word, (number,), TokenUsage(3, 0, number, WORD_US * number), reason)
        for number, (word, reason) in enumerate(zip(words, reasons, strict=True), start=1)
    ]
