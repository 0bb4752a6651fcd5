"""How an answer leaves: whole, or as a stream of events. Owns the ASGI `send` of one request.

A whole answer never commits early. A stream commits at its first frame, or after `commit_after_s`
of waiting: then a 200 with comment keep-alives, and failures as an error event. Guards law 9: a
stream that was cut ends with an error event, never with a clean `[DONE]`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from billing.money import usd
from billing.types import Usage
from gateway.call import rate_headers
from gateway.call.frame import Choice, Frame
from gateway.call.open_call import OpenCall
from gateway.call.request import Streaming
from gateway.errors import ApiError
from gateway.wire.answer import AnswerHead, Chunks, Form, Notes, TypedForm, UsageChunks
from gateway.wire.dialect import OPENAI, Dialect
from gateway.wire.whole_choice import CUT_SHORT, WholeChoice
from routing.types import Candidate, Clock

Send = Callable[[dict[str, Any]], Awaitable[None]]
AtOnce = Callable[[int, bytes, bytes], bool]
"""Takes the status, the lines of the head and the body of a whole answer; False if it did not."""
PieceAtOnce = Callable[[bytes], bool]
"""Takes some of the body of a stream that has begun; False if it did not: then `send` has it."""
QueueNote = Callable[[OpenCall], Awaitable[str]]

LARGE_ANSWER_CHOICES = 64
"""More of them are shaped beside the event loop, so that others need not wait for it."""
STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


SIMULATED = {"simulated": True}
SIMULATED_FIELD = b',"sluice":' + msgspec.json.encode(SIMULATED) + b"}"
"""At the end of a whole answer whose pool is simulated, in every dialect."""
_IN_SILENCE = nullcontext()
"""How a caller waits who is told nothing before the whole."""


@dataclass(frozen=True, slots=True)
class ReplySettings:
    commit_after_s: float = 5.0
    keep_alive_every_s: float = 5.0


class Reply(Protocol):
    """The caller's side of one call, in the order the journey uses it."""

    is_committed: bool
    """Something of it has left, a status at least."""

    def keeping_alive(self, open_call: OpenCall) -> AbstractAsyncContextManager[None]:
        """A block in which the caller is told that it waits, until `begin`."""
        ...

    async def begin(self, open_call: OpenCall, candidate: Candidate) -> None: ...

    async def forward(self, frame: Frame, more: bool = False) -> None:
        """`more`: others are right behind it, with which it may leave together."""
        ...

    def start_over(self) -> bool:
        """True if nothing of the answer has left, and what was gathered is forgotten."""
        ...

    async def stop_early(self, reason: str) -> None: ...

    async def finish(self, open_call: OpenCall) -> None: ...

    async def fail(self, error: ApiError) -> None: ...


class Exchange(msgspec.Struct, frozen=True):
    """One HTTP exchange: what every reply needs of it."""

    request_id: str
    arrived_s: float
    clock: Clock
    send: Send
    dialect: Dialect = OPENAI
    at_once: AtOnce | None = None
    piece_at_once: PieceAtOnce | None = None
    abort: Callable[[], None] | None = None
    """Closes the connection, where the server can."""

    async def hang_up(self) -> None:
        """An answer that has begun and cannot say how it failed gets no end."""
        if self.abort is not None:
            self.abort()
            await asyncio.sleep(0)

    async def start(self, status: int, headers: dict[str, str]) -> None:
        raw = rate_headers.raw(self._named(headers))
        await self.send({"type": "http.response.start", "status": status, "headers": raw})

    async def body(self, payload: bytes, more: bool = False) -> None:
        await self.send({"type": "http.response.body", "body": payload, "more_body": more})

    async def whole(self, status: int, payload: bytes, headers: dict[str, str]) -> None:
        typed = {"content-type": "application/json", "content-length": str(len(payload))} | headers
        if self.at_once is not None:
            lines = rate_headers.lines(self._named(typed))
            if lines is not None and self.at_once(status, lines, payload):
                return
        await self.start(status, typed)
        await self.body(payload)

    def _named(self, more: dict[str, str]) -> Mapping[str, str]:
        """With what every answer says."""
        now_s = self.clock()
        headers = rate_headers.identity(self.request_id, self.arrived_s, now_s)
        headers.update(more)
        return self.dialect.headers(headers, now_s)

    async def error(self, error: ApiError) -> None:
        payload = self.dialect.refusal(error, self.request_id)
        await self.whole(error.status, payload, error.headers())


class WholeReply:
    """Gathers the choices and answers once, with the true status and the cost in a header."""

    def __init__(self, exchange: Exchange, *, form: Form, choices: int) -> None:
        self._exchange = exchange
        self._form = form
        self._gathered = _nothing(choices)
        self._candidate: Candidate | None = None
        self.is_committed = False

    def keeping_alive(self, open_call: OpenCall) -> AbstractAsyncContextManager[None]:
        return _IN_SILENCE

    async def begin(self, open_call: OpenCall, candidate: Candidate) -> None:
        self._candidate = candidate

    async def forward(self, frame: Frame, more: bool = False) -> None:
        for choice in frame.choices:
            self._gathered[choice.index].add(choice)

    def start_over(self) -> bool:
        self._gathered = _nothing(len(self._gathered))
        return True

    async def stop_early(self, reason: str) -> None:
        """The finish reason of every choice that was cut short says it."""

    async def finish(self, open_call: OpenCall) -> None:
        assert self._candidate is not None, "an answer is finished after it has begun"
        record = open_call.settled()
        cost, usage = usd(record.amount_nanousd), record.usage
        head = _head(self._exchange, self._candidate, usage)
        shape = partial(self._form.whole, head, self._gathered, usage, cost)
        is_large = len(self._gathered) > LARGE_ANSWER_CHOICES
        payload = await asyncio.to_thread(shape) if is_large else shape()
        if self._candidate.is_simulated:
            payload = payload.removesuffix(b"}") + SIMULATED_FIELD
        headers = rate_headers.limits(open_call) | rate_headers.route(self._candidate)
        if isinstance(self._form, TypedForm) and (content_type := self._form.content_type):
            headers["content-type"] = content_type
        self.is_committed = True
        await self._exchange.whole(200, payload, headers | {"x-sluice-cost-usd": cost})

    async def fail(self, error: ApiError) -> None:
        self.is_committed = True
        await self._exchange.error(error)


class StreamReply:
    """Sends events as they come."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        streaming: Streaming,
        choices: int,
        settings: ReplySettings,
        queue_note: QueueNote,
    ) -> None:
        self._exchange = exchange
        self._streaming = streaming
        self._unfinished = set(range(choices))
        self._settings = settings
        self._queue_note = queue_note
        self._patience: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._chunks: Chunks | None = None
        self._candidate: Candidate | None = None
        self._unnamed: OpenCall | None = None
        self._counted: OpenCall | None = None
        self._held: list[bytes] = []
        self.is_committed = False

    @asynccontextmanager
    async def keeping_alive(self, open_call: OpenCall) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        self._patience = loop.call_later(
            self._settings.commit_after_s, self._begin_to_tell, open_call
        )
        try:
            yield
        finally:
            await self._stop_waiting()

    def _begin_to_tell(self, open_call: OpenCall) -> None:
        """Most calls never wait for so long, and need no task."""
        self._waiting = asyncio.create_task(self._keep_alive(open_call))

    async def _keep_alive(self, open_call: OpenCall) -> None:
        await self._commit(rate_headers.limits(open_call))
        while True:
            note = await self._queue_note(open_call)
            await self._exchange.body(self._exchange.dialect.waiting(note), more=True)
            await asyncio.sleep(self._settings.keep_alive_every_s)

    async def _stop_waiting(self) -> None:
        """Not by awaiting the task: a cancellation of the call would be taken for its own."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
            if not waiting.cancelled():
                waiting.result()

    async def _commit(self, headers: dict[str, str]) -> None:
        if not self.is_committed:
            self.is_committed = True
            await self._exchange.start(200, STREAM_HEADERS | headers)

    async def begin(self, open_call: OpenCall, candidate: Candidate) -> None:
        await self._stop_waiting()
        self._candidate = candidate
        self._chunks = self._streaming.chunks(_head(self._exchange, candidate, open_call.usage))
        self._unnamed = open_call if self.is_committed else None
        self._counted = open_call if self._streaming.counts else None
        has_notes = self.is_committed or candidate.is_simulated
        notes = _served(candidate) if has_notes else None
        await self._commit(rate_headers.limits(open_call) | rate_headers.route(candidate))
        await self._events(b"".join(self._chunks.opening(notes)))

    async def forward(self, frame: Frame, more: bool = False) -> None:
        if self._counted is not None and isinstance(self._chunks, UsageChunks):
            self._chunks.count(self._counted.usage)
        for choice in frame.choices:
            self._held.append(self._piece(choice))
        if not more and (events := self._released()):
            at_once = self._exchange.piece_at_once
            if at_once is None or not at_once(events):
                await self._exchange.body(events, more=True)

    def _piece(self, choice: Choice, notes: Notes | None = None) -> bytes:
        """Of a choice that goes on; what a server adds after its end says nothing new."""
        assert self._chunks is not None, "an answer is forwarded after it has begun"
        if choice.index not in self._unfinished:
            return b""
        if choice.finish_reason is not None:
            self._unfinished.discard(choice.index)
        all_notes = notes if self._unnamed is None else self._noted(notes)
        return b"".join(self._chunks.piece(choice, all_notes))

    def _noted(self, notes: Notes | None) -> Notes | None:
        """And pool, tier and cost, in the last chunk of a stream whose headers could not tell."""
        if self._unnamed is None or self._candidate is None or self._unfinished:
            return notes
        cost = usd(self._unnamed.charge.amount_nanousd)
        return (notes or {}) | _served(self._candidate) | {"cost": cost}

    def start_over(self) -> bool:
        return False

    async def stop_early(self, reason: str) -> None:
        for index in sorted(self._unfinished):
            cut = Choice(index=index, finish_reason=CUT_SHORT)
            self._held.append(self._piece(cut, {"stop_reason": reason}))
        await self._events(self._released())

    async def finish(self, open_call: OpenCall) -> None:
        assert self._chunks and self._candidate, "a stream is finished after it has begun"
        record, notes = open_call.settled(), _served(self._candidate)
        last = self._chunks.end(record.usage, usd(record.amount_nanousd), notes)
        await self._exchange.body(self._released() + last)

    async def fail(self, error: ApiError) -> None:
        """The true status if nothing has left yet, else an error event and no clean end."""
        await self._stop_waiting()
        if not self.is_committed:
            self.is_committed = True
            await self._exchange.error(error)
        elif self._chunks is not None:
            await self._exchange.body(self._released() + self._chunks.failed(error))
        else:
            early = self._exchange.dialect.failed(error, self._exchange.request_id)
            await self._exchange.body(early)

    def _released(self) -> bytes:
        events = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        return events

    async def _events(self, events: bytes) -> None:
        if events:
            await self._exchange.body(events, more=True)


def _nothing(choices: int) -> list[WholeChoice]:
    return [WholeChoice(index) for index in range(choices)]


def _served(candidate: Candidate) -> dict[str, Any]:
    served = {"pool": candidate.pool, "tier": candidate.tier.value}
    return served | SIMULATED if candidate.is_simulated else served


def _head(exchange: Exchange, candidate: Candidate, begun_with: Usage) -> AnswerHead:
    return AnswerHead(
        id=exchange.request_id.removeprefix("req_"),
        created=int(exchange.arrived_s),
        model=candidate.model,
        service_tier=candidate.tier.value,
        begun_with=begun_with,
        clock=exchange.clock,
    )
