"""Step 6: walk a Decision until an answer begins.

Takes the candidates in their order: a warm replica is tried, a cold pool is waited for in the
waiting room within the deadline, and what fails before its first frame is failed over. Holds no
money and shapes no output. Every attempt is recorded, every wait is bounded and left again.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
from redis.exceptions import RedisError

from billing.types import Attempt, Usage
from gateway.errors import (
    ApiError,
    bad_request,
    context_length_exceeded,
    deadline_passed,
    overloaded,
)
from gateway.fleet import FleetKeeper
from gateway.meter import Frame, Meter
from gateway.open_call import OpenCall
from gateway.upstream.answer import Rejected, Rejection, Saturated, UpstreamError
from gateway.upstream.openai import OpenAIUpstream, Target
from routing.cost import wait_s
from routing.policy import Policy, decide
from routing.replicas import choose_replica
from routing.types import Candidate, Clock, PoolState, Refusal, Tier
from workers.queue import WaitingRoom, WaitingRoomFull

ROUNDS_MAX = 4
NOBODY_RETRY_S = 5.0
RETRY_MAX_S = 3600.0
"""The longest `retry-after` of an upstream that is passed on to a caller."""
RECHECK_S = 0.25
SATURATED_PAUSE_S = 0.25
"""How long a replica that took no more calls is left alone before it is asked again."""
FAILED_PAUSE_S = 0.5
"""The same for one that failed: its drain may be called off, and a broken connection says little
about the next. Never for ever, or a call would outwait its deadline beside the only replica."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to send, for any model it may end on: the messages and the sampling parameters."""

    messages: tuple[dict[str, Any], ...]
    sampling: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opened:
    """An answer that has begun: its first frame is here, the rest follow from `frames`."""

    candidate: Candidate
    replica: str
    meter: Meter
    first: Frame
    frames: AsyncGenerator[Frame]


@dataclass(frozen=True, slots=True)
class _Place:
    id: str
    target: Target


class Dispatcher:
    """Tries what was decided; once all of it failed, decides again over the fleet as it is."""

    def __init__(
        self,
        *,
        fleet: FleetKeeper,
        waiting_room: WaitingRoom,
        upstream: OpenAIUpstream,
        policy: Policy,
        worker_secret: str,
        environment: Mapping[str, str],
        rng: Random,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._waiting_room = waiting_room
        self._upstream = upstream
        self._policy = policy
        self._worker_secret = worker_secret
        self._environment = environment
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

    async def _walk(self, open_call: OpenCall, wanted: Wanted, attempt: AsyncExitStack) -> Opened:
        avoided: dict[str, float] = {}
        retry_after_s = NOBODY_RETRY_S
        candidates = open_call.decision.eligible
        for round_number in range(ROUNDS_MAX):
            for candidate in candidates:
                patient = round_number > 0 or not avoided
                place = await self._place(open_call, candidate, wanted, avoided, patient)
                if place is None:
                    continue
                try:
                    return await self._try(open_call, candidate, place, attempt)
                except Rejected as rejected:
                    raise _callers_fault(rejected.rejection) from rejected
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
        match decide(open_call.call, self._fleet.snapshot(), self._policy, self._rng):
            case Refusal(message=message, retry_after_s=retry_after_s):
                raise overloaded(message, retry_after_s or 1.0)
            case decision:
                return decision.eligible

    # --- finding a place -------------------------------------------------------------------

    async def _place(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        wanted: Wanted,
        avoided: dict[str, float],
        patient: bool,
    ) -> _Place | None:
        """Where this candidate can be tried now, waiting for it if `patient`; else None."""
        state = self._fleet.state(candidate.pool)
        if state is None:
            return None
        if state.pool.is_external:
            outside = f"external:{state.pool.name}"
            blocked = avoided.get(outside, 0.0) > self._clock()
            return None if blocked else self._outside(outside, state, open_call, wanted)
        found = self._warm_place(open_call, candidate, wanted, avoided)
        if found or not patient:
            return found
        return await self._wait_for_place(open_call, candidate, wanted, avoided)

    def _warm_place(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        wanted: Wanted,
        avoided: dict[str, float],
    ) -> _Place | None:
        state = self._fleet.state(candidate.pool)
        if state is None:
            return None
        now_s = self._clock()
        excluded = [replica for replica, until_s in avoided.items() if until_s > now_s]
        replica = choose_replica(state, self._rng, excluded)
        if replica is None:
            return None
        body = _body(open_call, candidate.model, wanted) | {
            "sluice": {
                "request_id": open_call.rid,
                "cache_salt": open_call.call.organization,
                "immediate": open_call.call.tier is Tier.PRIORITY,
            }
        }
        target = Target(
            url=f"{replica.address}/v1/chat/completions",
            headers={
                "content-type": "application/json",
                "x-request-id": open_call.rid,
                "x-sluice-worker-secret": self._worker_secret,
            },
            body=msgspec.json.encode(body),
        )
        return _Place(replica.id, target)

    async def _wait_for_place(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        wanted: Wanted,
        avoided: dict[str, float],
    ) -> _Place | None:
        """Wait in the room until the pool has a replica; None if the pool cannot get one."""
        async with self._in_room(open_call, candidate.pool):
            while (left_s := open_call.call.deadline_s - self._clock()) > 0:
                await self._fleet.changed(timeout_s=min(left_s, RECHECK_S))
                if place := self._warm_place(open_call, candidate, wanted, avoided):
                    return place
                if _is_blocked(self._fleet.state(candidate.pool)):
                    return None
        raise deadline_passed("The deadline passed while the call waited for a worker.")

    @asynccontextmanager
    async def _in_room(self, open_call: OpenCall, pool: str) -> AsyncIterator[None]:
        wait_ms = max(1, round((open_call.call.deadline_s - self._clock()) * 1000))
        try:
            async with self._waiting_room.waiting(pool, open_call.rid, wait_ms=wait_ms):
                open_call.waits_for = pool
                yield
        except WaitingRoomFull as full:
            raise overloaded("Too many calls are waiting already.", retry_after_s=5.0) from full
        except RedisError as away:
            raise overloaded("The waiting room is out of reach.", retry_after_s=1.0) from away
        finally:
            open_call.waits_for = None

    async def queue_note(self, open_call: OpenCall) -> str:
        """Where a held call stands, in one line for a keep-alive."""
        pool = open_call.waits_for
        state = self._fleet.state(pool) if pool else None
        if pool is None or state is None:
            return "waiting for a worker"
        with suppress(RedisError):
            position = await self._waiting_room.position(pool, open_call.rid)
            eta_s = wait_s(state, open_call.call, self._clock())
            return f"waiting for pool {pool}, position {position or 0}, about {eta_s:.0f} s"
        return f"waiting for pool {pool}"

    def _outside(
        self, place_id: str, state: PoolState, open_call: OpenCall, wanted: Wanted
    ) -> _Place:
        pool = state.pool
        secret = self._environment.get(pool.api_key_env) if pool.api_key_env else None
        body = _body(open_call, pool.upstream_model or pool.variant, wanted) | {
            "stream_options": {"include_usage": True}
        }
        headers = {"content-type": "application/json"}
        if secret:
            headers["authorization"] = f"Bearer {secret}"
        url = f"{(pool.base_url or '').rstrip('/')}/chat/completions"
        return _Place(place_id, Target(url, headers, msgspec.json.encode(body)))

    # --- one attempt -------------------------------------------------------------------------

    async def _try(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        place: _Place,
        attempt: AsyncExitStack,
    ) -> Opened:
        """Open the stream and await its first frame; on failure nothing stays open."""
        async with AsyncExitStack() as stack:
            stack.enter_context(self._fleet.attempt(place.id))
            record = stack.enter_context(_Record(open_call, candidate, place.id, self._clock))
            async with _before_deadline(open_call.call.deadline_s - self._clock()):
                answer = await stack.enter_async_context(await self._upstream.open(place.target))
                frames = answer.frames()
                stack.push_async_callback(frames.aclose)
                first = await anext(frames)
            meter = Meter(open_call.call.prompt_tokens[candidate.model])
            meter.observe(first, self._clock())
            open_call.serve_from(candidate, meter)
            record.meter = meter
            await attempt.enter_async_context(stack.pop_all())
        return Opened(candidate, place.id, meter, first, frames)


@asynccontextmanager
async def _before_deadline(left_s: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(max(0.0, left_s)):
            yield
    except TimeoutError as late:
        raise deadline_passed("The deadline passed before the answer began.") from late


class _Record:
    """Writes one Attempt into the call's record when its block is left, however it is left."""

    def __init__(
        self, open_call: OpenCall, candidate: Candidate, replica: str, clock: Clock
    ) -> None:
        self._open_call = open_call
        self._candidate = candidate
        self._replica = replica
        self._clock = clock
        self._started_us = round(clock() * 1e6)
        self.meter: Meter | None = None

    def __enter__(self) -> "_Record":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        usage = self.meter.usage if self.meter else Usage()
        self._open_call.attempts.append(
            Attempt(
                pool=self._candidate.pool,
                replica=self._replica,
                started_us=self._started_us,
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


def _body(open_call: OpenCall, model: str, wanted: Wanted) -> dict[str, Any]:
    return {
        "model": model,
        "messages": wanted.messages,
        "max_tokens": open_call.call.output_tokens_max,
        "stream": True,
        **wanted.sampling,
    }


def _is_blocked(state: PoolState | None) -> bool:
    return state is None or (state.blocked_reason is not None and not state.replicas)


def _callers_fault(rejection: Rejection) -> ApiError:
    if rejection.code == "context_length_exceeded":
        return context_length_exceeded(rejection.message)
    return bad_request(rejection.message, rejection.param, rejection.code)
