"""Step 6: walk a Decision until an answer begins.

Takes the candidates in their order: a warm replica is tried, a cold pool is waited for in the
waiting room within the deadline, and what fails before its first frame is failed over. Holds no
money and shapes no output. Every attempt is recorded, every wait is bounded and left again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from billing.tasks import end
from billing.types import Attempt, Usage
from gateway.errors import (
    ApiError,
    bad_request,
    context_length_exceeded,
    deadline_passed,
    overloaded,
)
from gateway.fleet import FleetKeeper
from gateway.frame import Frame
from gateway.meter import Meter
from gateway.open_call import OpenCall
from gateway.upstream.answer import Cut, Rejected, Rejection, Saturated, UpstreamError
from gateway.upstream.openai import OpenAIAnswer, OpenAIUpstream, Target
from gateway.upstream.places import Place, Places
from gateway.wire.request import Wanted
from routing.policy import Policy, decide
from routing.types import Candidate, Clock, Refusal

ROUNDS_MAX = 4
NOBODY_RETRY_S = 5.0
OPENING_FRAMES_MAX = 64
"""Frames without a token that are kept until the first one comes."""
RETRY_MAX_S = 3600.0
"""The longest `retry-after` of an upstream that is passed on to a caller."""
SATURATED_PAUSE_S = 0.25
"""How long a replica that took no more calls is left alone before it is asked again."""
FAILED_PAUSE_S = 0.5
"""The same for one that failed: its drain may be called off, and a broken connection says little
about the next. Never for ever, or a call would outwait its deadline beside the only replica."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An answer that has begun: the frame with its first token is here, and what came before; the
    rest follow from `frames`."""

    candidate: Candidate
    replica: str
    meter: Meter
    opening: list[Frame]
    frames: AsyncGenerator[Frame]
    answer: OpenAIAnswer


class Dispatcher:
    """Tries what was decided; once all of it failed, decides again over the fleet as it is."""

    def __init__(
        self,
        *,
        fleet: FleetKeeper,
        places: Places,
        upstream: OpenAIUpstream,
        policy: Policy,
        rng: Random,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._places = places
        self._upstream = upstream
        self._policy = policy
        self._rng = rng
        self._clock = clock

    @asynccontextmanager
    async def dispatch(self, open_call: OpenCall, wanted: Wanted) -> AsyncIterator[Opened]:
        """An answer whose first frame has come; the attempt is closed when the block is left.

        Raises ApiError: 503 where capacity lacks, 504 where the deadline passed while waiting,
        or the upstream's own 400.
        """
        async with AsyncExitStack() as attempt:
            yield await self._walk(open_call, wanted, attempt)

    async def want(self, refusal: Refusal) -> None:
        """Of a call that was refused because its pool would have been ready too late."""
        if refusal.soonest_pool is not None:
            await self._places.want(refusal.soonest_pool)

    async def _walk(self, open_call: OpenCall, wanted: Wanted, attempt: AsyncExitStack) -> Opened:
        avoided: dict[str, float] = {}
        retry_after_s = NOBODY_RETRY_S
        candidates = open_call.decision.eligible
        for round_number in range(ROUNDS_MAX):
            for candidate in candidates:
                patient = round_number > 0 or not avoided
                found = await self._places.find(
                    open_call, candidate, candidates, wanted, avoided, patient
                )
                if found is None:
                    continue
                chosen, place = found
                try:
                    return await self._try(open_call, chosen, place, attempt)
                except Rejected as rejected:
                    raise _callers_fault(rejected.rejection, wanted) from rejected
                except UpstreamError as failed:
                    avoided[place.id] = self._avoid_until_s(failed)
                    if isinstance(failed, Saturated) and failed.retry_after_s:
                        retry_after_s = min(failed.retry_after_s, RETRY_MAX_S)
            candidates = self._candidates_now(open_call)
        raise overloaded("No worker could take the call.", retry_after_s)

    def _avoid_until_s(self, failed: UpstreamError) -> float:
        pause_s = SATURATED_PAUSE_S if isinstance(failed, Saturated) else FAILED_PAUSE_S
        return self._clock() + pause_s

    def _candidates_now(self, open_call: OpenCall) -> tuple[Candidate, ...]:
        match decide(
            open_call.call, self._fleet.snapshot(open_call.call.models), self._policy, self._rng
        ):
            case Refusal(message=message, retry_after_s=retry_after_s):
                raise overloaded(message, retry_after_s or 1.0)
            case decision:
                return decision.eligible

    async def _try(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        place: Place,
        attempt: AsyncExitStack,
    ) -> Opened:
        """Open the stream and await its first frame; on failure nothing stays open."""
        left_s = open_call.call.deadline_s - self._clock()
        if left_s <= 0:
            raise overloaded("The deadline cannot be met.", retry_after_s=1.0)
        try:
            attempt.enter_context(self._fleet.attempt(place.id))
            record = attempt.enter_context(_Record(open_call, candidate, place.id, self._clock))
            begins = self._begin(place.target, left_s, attempt)
            departed = None
            if place.target.whole is None:
                begun = await begins
            else:
                begun, departed = await _seen_through(begins)
            meter = Meter(open_call.call.prompt_tokens[candidate.model], place.target.choices)
            for frame in begun.opening:
                meter.observe(frame, self._clock())
            open_call.serve_from(candidate, meter, record.started_us)
            record.meter = meter
            if departed is not None:
                raise departed
        except BaseException as failed:
            await attempt.__aexit__(type(failed), failed, failed.__traceback__)
            raise
        return Opened(candidate, place.id, meter, begun.opening, begun.frames, begun.answer)

    async def _begin(self, target: Target, left_s: float, attempt: AsyncExitStack) -> "_Begun":
        async with _in_time(left_s, target.patience.first_token_s):
            answer = await attempt.enter_async_context(await self._upstream.open(target))
            frames = answer.frames()
            attempt.push_async_callback(frames.aclose)
            return _Begun(await _until_first_token(frames), frames, answer)


@dataclass(frozen=True, slots=True)
class _Begun:
    opening: list[Frame]
    frames: AsyncGenerator[Frame]
    answer: OpenAIAnswer


async def _seen_through(
    begins: Coroutine[Any, Any, _Begun],
) -> tuple[_Begun, asyncio.CancelledError | None]:
    """An answer in one piece has a price from its first token on, and says it with its last: one
    whose caller departs is waited for all the same, until the call's end is asked for again.

    The departure comes back beside it; of an answer that came to nothing it is raised.
    """
    task = asyncio.create_task(begins)
    try:
        return await asyncio.shield(task), None
    except asyncio.CancelledError as departed:
        await asyncio.wait({task})
        if task.cancelled() or task.exception() is not None:
            raise
        return task.result(), departed
    finally:
        await end(task)


@asynccontextmanager
async def _in_time(left_s: float, first_token_s: float) -> AsyncIterator[None]:
    """Whichever ends first: the time of the call, or that of this server, which another one may
    make good."""
    try:
        async with asyncio.timeout(max(0.0, min(left_s, first_token_s))):
            yield
    except TimeoutError as late:
        if first_token_s < left_s:
            raise Cut(f"no token came within {first_token_s} s") from late
        raise deadline_passed("The deadline passed before the answer began.") from late


async def _until_first_token(frames: AsyncGenerator[Frame]) -> list[Frame]:
    """A server that has said its role and no more has not begun: it can still be passed over."""
    found: list[Frame] = []
    async for frame in frames:
        found.append(frame)
        if frame.says_something or len(found) == OPENING_FRAMES_MAX:
            break
    return found


class _Record:
    """Writes one Attempt into the call's record when its block is left, however it is left."""

    def __init__(
        self, open_call: OpenCall, candidate: Candidate, replica: str, clock: Clock
    ) -> None:
        self._open_call = open_call
        self._candidate = candidate
        self._replica = replica
        self._clock = clock
        self.started_us = round(clock() * 1e6)
        self.meter: Meter | None = None

    def __enter__(self) -> "_Record":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        usage = self.meter.usage if self.meter else Usage()
        self._open_call.attempts.append(
            Attempt(
                pool=self._candidate.pool,
                replica=self._replica,
                started_us=self.started_us,
                ended_us=round(self._clock() * 1e6),
                outcome=_outcome(kind),
                input=usage.input,
                cached_input=usage.cached_input,
                output=usage.output,
            )
        )


def _outcome(kind: type[BaseException] | None) -> str:
    if kind is None:
        return "answered"
    if issubclass(kind, UpstreamError):
        return kind.outcome
    return "cancelled" if issubclass(kind, asyncio.CancelledError) else "failed"


def _callers_fault(rejection: Rejection, wanted: Wanted) -> ApiError:
    if rejection.code == "context_length_exceeded":
        return context_length_exceeded(rejection.message, rejection.param or wanted.param)
    return bad_request(rejection.message, rejection.param, rejection.code)
