"""Step 6: walk a Decision until an answer begins.

Takes the candidates in their order: a warm replica is tried, a cold pool is waited for in the
waiting room within the deadline, and what fails before its first frame is failed over. Nothing is
sent to a server outside before all its output is held. Shapes no output. Every attempt is
recorded, every wait is bounded and left again.
"""

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from billing.types import Attempt
from gateway.call.attempt import OpenAttempt
from gateway.call.frame import Frame
from gateway.call.leases import Leases
from gateway.call.meter import Meter
from gateway.call.open_call import OpenCall
from gateway.call.request import Payload
from gateway.catalog.fleet import FleetKeeper, outside_id
from gateway.errors import (
    ApiError,
    bad_request,
    context_length_exceeded,
    deadline_passed,
    insufficient_quota,
    overloaded,
    provider_misconfigured,
)
from gateway.moves.arrived import Arrived
from gateway.moves.move import MOVED, Move, Share, may_move
from gateway.replicas.placement import OpenPlace
from gateway.speeds.learner import Learner, SentCall
from gateway.upstream.answer import (
    HintsRefused,
    Late,
    Lost,
    Misconfigured,
    Rejected,
    Rejection,
    Saturated,
    UpstreamError,
)
from gateway.upstream.come_again import AGAIN_S_MAX, NOBODY_KNOWS_S
from gateway.upstream.faults import Faults
from gateway.upstream.hints import note_of
from gateway.upstream.http1 import SeenThrough
from gateway.upstream.openai import OpenAIAnswer, OpenAIUpstream
from gateway.upstream.places import Place, Places
from routing.decide import decide
from routing.plans import Plans
from routing.types import Candidate, CapacityClass, Clock, Refusal, RefusalKind

ROUNDS_MAX = 4
OUTSIDE_PAUSE_S_MAX = 1.0
"""How long a call waits at most, between two rounds, for servers outside that have all failed."""
OPENING_FRAMES_MAX = 64
"""Frames without a token that are kept until the first one comes."""
SATURATED_PAUSE_S = 0.25
"""How long a replica that took no more calls is left alone before it is asked again."""
LOST_PAUSE_S = 3.0
"""The same for a place that an answer moves from, or could not move to: until the fleet has heard
that it is gone."""
FAILED_PAUSE_S = 0.5
"""The same for one that failed: its drain may be called off, and a broken connection says little
about the next. Never for ever, or a call would outwait its deadline beside the only replica."""

NOT_COVERED = (
    "No worker of ours could take the call, and what is left of its budget or credit does not cover"
    " it at a server outside, where all of 'max_tokens' is held at once. A smaller 'max_tokens'"
    " costs less."
)


class LiveAnswer(NamedTuple):
    """An answer that has begun: the frame with its first token is here, what came before it, and
    `behind` it what has come already; `answer` has the rest."""

    candidate: Candidate
    meter: Meter
    opening: list[Frame]
    behind: list[Frame]
    answer: OpenAIAnswer


class Dispatcher:
    """Tries what was decided; once all of it failed, decides again over the fleet as it is."""

    def __init__(
        self,
        *,
        fleet: FleetKeeper,
        places: Places,
        upstream: OpenAIUpstream,
        faults: Faults,
        leases: Leases,
        learner: Learner,
        plans: Plans,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._learner = learner
        self._faults = faults
        self._leases = leases
        self._places = places
        self._upstream = upstream
        self._plans = plans
        self._clock = clock

    def dispatch(self, open_call: OpenCall, payload: Payload) -> "Dispatching":
        """An answer whose first frame has come; the attempt is closed when the block is left.

        Raises ApiError: 503 where capacity lacks or nobody but servers that refuse us is there,
        504 where the deadline passed while waiting, or the upstream's own 400.
        """
        return Dispatching(self, open_call, payload)

    @property
    def now_s(self) -> float:
        return self._clock()

    async def want(self, refusal: Refusal) -> None:
        """Of a call that was refused because its pool would have been ready too late."""
        if refusal.soonest_pool is not None:
            await self._places.want(refusal.soonest_pool)

    async def walk(
        self, open_call: OpenCall, payload: Payload, move: Move | None = None, lost: str = ""
    ) -> "tuple[_Attempt, LiveAnswer]":
        """Whoever calls it closes the attempt; what failed before has been closed. Of a `move` the
        place `lost` is left alone."""
        avoided = {lost: self._clock() + LOST_PAUSE_S} if move else {}
        retry_after_s: float | None = None
        may_recover = False
        lacks_money = False
        candidates: Iterable[Candidate] = open_call.decision.eligible
        for round_number in range(ROUNDS_MAX):
            for candidate in candidates:
                if move is not None and not move.may_go_to(candidate):
                    continue
                patient = round_number > 0 or not avoided
                match = await self._places.find(open_call, candidate, payload, avoided, patient)
                if match is None:
                    continue
                served_by, place = match
                if move is not None and not move.may_go_to(served_by):
                    continue
                if place.pool.is_external and not await self._leases.covers_all(open_call):
                    avoided[place.id] = math.inf
                    lacks_money = True
                    continue
                try:
                    return await self._try(open_call, served_by, place, move)
                except Rejected as rejected:
                    raise _callers_fault(rejected.rejection, payload) from rejected
                except UpstreamError as failed:
                    avoided[place.id] = self._avoid_until_s(failed, move)
                    may_recover |= not isinstance(failed, Misconfigured)
                    if isinstance(failed, Saturated) and failed.retry_after_s:
                        pause_s = min(failed.retry_after_s, AGAIN_S_MAX)
                        if place.pool.is_external:
                            avoided[place.id] = self._clock() + pause_s
                        retry_after_s = min(pause_s, retry_after_s or pause_s)
            candidates = again = self._candidates_now(open_call)
            if round_number < ROUNDS_MAX - 1:
                await self._pause(open_call, again, avoided)
        if lacks_money:
            raise insufficient_quota(NOT_COVERED, open_call.principal.quota_status)
        if avoided and not may_recover:
            raise provider_misconfigured()
        again_s = retry_after_s or self._places.again_s(open_call, avoided)
        raise overloaded("No worker could take the call.", again_s)

    def _avoid_until_s(self, failed: UpstreamError, move: Move | None) -> float:
        """A server that refuses us will refuse this call again, however often it is asked."""
        if isinstance(failed, Misconfigured):
            return math.inf
        if move is not None and not isinstance(failed, Saturated):
            return self._clock() + LOST_PAUSE_S
        pause_s = SATURATED_PAUSE_S if isinstance(failed, Saturated) else FAILED_PAUSE_S
        return self._clock() + pause_s

    async def _pause(
        self, open_call: OpenCall, candidates: Sequence[Candidate], avoided: Mapping[str, float]
    ) -> None:
        """Until a server outside may be asked again, where there is nobody else. Pools of our own
        are waited for in `Places.find`."""
        if any(each.capacity_class is not CapacityClass.EXTERNAL for each in candidates):
            return
        now_s = self._clock()
        again_s = min((avoided.get(outside_id(each.pool), now_s) for each in candidates), default=0)
        if now_s < again_s <= min(now_s + OUTSIDE_PAUSE_S_MAX, open_call.call.deadline_s):
            await asyncio.sleep(again_s - now_s)

    def _candidates_now(self, open_call: OpenCall) -> Sequence[Candidate]:
        """By the rule that the call fell under, whatever policy is active by now."""
        call, first = self._places.with_prefixes(open_call), open_call.decision
        snapshot = self._fleet.snapshot(call.models)
        match decide(call, snapshot, first.matched, first.seed, self._plans):
            case Refusal(kind=RefusalKind.MISCONFIGURED):
                raise provider_misconfigured()
            case Refusal(message=message, retry_after_s=retry_after_s):
                raise overloaded(message, retry_after_s or NOBODY_KNOWS_S)
            case decision:
                return tuple(decision.eligible)

    async def _try(
        self, open_call: OpenCall, candidate: Candidate, place: Place, move: Move | None
    ) -> "tuple[_Attempt, LiveAnswer]":
        """A server outside that refuses a hint is asked once more, without any."""
        try:
            return await self._try_once(open_call, candidate, place, move)
        except HintsRefused as refused:
            bare = msgspec.structs.replace(place, target=place.target.without_hints())
            attempt = await self._try_once(open_call, candidate, bare)
            self._places.leave_out(refused.hints, place)
            return attempt

    async def _try_once(
        self, open_call: OpenCall, candidate: Candidate, place: Place, move: Move | None = None
    ) -> "tuple[_Attempt, LiveAnswer]":
        """Open the stream and await its first frame; on failure nothing stays open."""
        left_s = open_call.call.deadline_s - self._clock()
        if left_s <= 0:
            raise overloaded("The deadline cannot be met.", self._places.again_s(open_call, {}))
        state = self._fleet.state(candidate.pool)
        watch = self._learner.sent_call(open_call.call, place.pool, state, place.id)
        open_place = self._places.open(place)
        attempt = _Attempt(
            open_call, candidate, place, self._fleet, open_place, watch, self._faults, self._clock
        )
        try:
            opened, departed = await attempt.begin(self._upstream, self._places, left_s)
            if move is not None:
                return attempt, attempt.goes_on(opened, move)
            for frame in opened.opening:
                opened.meter.observe(frame, self._clock())
            self._places.computed(place, open_call)
            if open_place is not None:
                open_place.computed(opened.meter)
            open_call.serve_from(candidate, opened.meter, attempt.started_us, attempt.tried)
            attempt.answers(opened.meter)
            if departed is not None:
                raise departed
        except BaseException as failed:
            await attempt.close(failed)
            raise
        return attempt, opened


class Dispatching:
    """The block in which a dispatched call is answered, by one attempt or by several that go on one
    behind the other."""

    def __init__(self, dispatcher: Dispatcher, open_call: OpenCall, payload: Payload) -> None:
        self._dispatcher = dispatcher
        self._open_call = open_call
        self._payload = payload

    async def __aenter__(self) -> LiveAnswer:
        self._attempt, opened = await self._dispatcher.walk(self._open_call, self._payload)
        return opened

    async def __aexit__(self, kind: object, failed: BaseException | None, trace: object) -> None:
        await self._attempt.close(failed)

    async def move(self, arrived: Arrived, lost: Lost) -> LiveAnswer:
        """Go on at another worker where this one was lost. Raises `lost` where that cannot be: what
        refuses the call there does not hide how it was cut here."""
        open_call, served = self._open_call, self._open_call.served
        assert served is not None and open_call.meter is not None, "it was cut after it had begun"
        await self._attempt.close(lost)
        arrived.gather()
        if not may_move(open_call.call, open_call.attempts, served, arrived):
            raise lost
        number = len(open_call.attempts) - 1
        meter = open_call.meter
        move = Move(served, meter, meter.usage, arrived.resume(meter))
        try:
            opened = await self._gone_on(move)
        except ApiError as refused:
            raise lost from refused
        left = open_call.attempts[number]
        open_call.attempts[number] = msgspec.structs.replace(left, outcome=MOVED)
        return opened

    async def _gone_on(self, move: Move) -> LiveAnswer:
        open_call, call = self._open_call, self._open_call.call
        open_call.resume = move.resume
        open_call.call = move.extended(call, self._dispatcher.now_s)
        try:
            self._attempt, opened = await self._dispatcher.walk(
                open_call, self._payload, move, self._attempt.place_id
            )
        finally:
            open_call.resume, open_call.call = None, call
        return opened


class _Attempt:
    """One try at one place: in flight from here on, until `close` ends whatever it opened and
    writes it into the call's record."""

    def __init__(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        place: Place,
        fleet: FleetKeeper,
        open_place: OpenPlace | None,
        watch: SentCall,
        faults: Faults,
        clock: Clock,
    ) -> None:
        self._faults = faults
        self._sent = watch
        self._open_call = open_call
        self._candidate = candidate
        self._place = place
        self._fleet = fleet
        self._counted = open_place
        self._clock = clock
        self._answer: OpenAIAnswer | None = None
        self.started_us = round(clock() * 1e6)
        self.tried = OpenAttempt(place.pool, place.id, candidate.model, self.started_us)
        self.meter: Meter | None = None
        self._share: Share | None = None
        self._is_closed = False
        fleet.began(place.id, place.pool.name)

    async def begin(
        self, upstream: OpenAIUpstream, places: Places, left_s: float
    ) -> tuple[LiveAnswer, asyncio.CancelledError | None]:
        """Whichever ends first: the time of the call (ApiError 504), or that of this server, which
        another one may make good (Late).

        An answer in one piece has a price from its first token on, and says it with its last: one
        whose caller departs is waited for all the same, until the call's end is asked for again.
        The departure comes back beside it; of an answer that came to nothing it is raised.
        """
        target = self._place.target
        first_token_s = target.patience.first_token_s
        seen_through = SeenThrough() if target.whole is not None else None
        try:
            opened = await self._open(upstream, min(left_s, first_token_s), seen_through)
        except Exception as failed:
            if seen_through is not None and seen_through.departed is not None:
                raise seen_through.departed from failed
            if isinstance(failed, Late) and left_s <= first_token_s:
                again_s = places.again_s(self._open_call, {})
                raise deadline_passed(
                    "The deadline passed before the answer began.", again_s
                ) from failed
            raise
        return opened, seen_through.departed if seen_through is not None else None

    async def _open(
        self, upstream: OpenAIUpstream, within_s: float, seen_through: SeenThrough | None
    ) -> LiveAnswer:
        target, candidate = self._place.target, self._candidate
        self._answer = answer = await upstream.open(target, within_s, seen_through)
        meter = Meter(self._open_call.call.prompt_tokens[candidate.model], target.choices)
        if answer.is_document:
            return LiveAnswer(candidate, meter, [await answer.document()], [], answer)
        opening, behind = await _until_first_token(answer)
        answer.begun()
        return LiveAnswer(candidate, meter, opening, behind, answer)

    def answers(self, meter: Meter) -> None:
        """Its first token is here."""
        self.meter = meter
        if not self._came_whole:
            self._sent.first_token(meter, self.started_us / 1e6)

    @property
    def _came_whole(self) -> bool:
        return self._place.target.whole is not None

    @property
    def place_id(self) -> str:
        return self._place.id

    def goes_on(self, opened: LiveAnswer, move: Move) -> LiveAnswer:
        """All of its frames are to be counted by the meter of the call, and covered like others."""
        self._share = Share(move.meter, move.base)
        if self._counted is not None:
            self._counted.computed(move.meter)
        self._open_call.go_on_from(self._candidate, self._share, self.tried)
        behind = [*opened.opening, *opened.behind]
        return opened._replace(meter=move.meter, opening=[], behind=behind)

    async def close(self, failed: BaseException | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._fleet.ended(self._place.id, self._place.pool.name)
        if self._counted is not None:
            self._counted.close()
        if self.meter is not None:
            choices = self._place.target.choices
            self._sent.ended(self.meter, choices, self._clock(), came_whole=self._came_whole)
        self._open_call.attempts.append(self._record(failed))
        if self._answer is not None:
            kind, trace = (type(failed), failed.__traceback__) if failed else (None, None)
            await self._answer.__aexit__(kind, failed, trace)

    def _record(self, failed: BaseException | None) -> Attempt:
        fault = note_of(self._place.target.left_out)
        if isinstance(failed, UpstreamError):
            fault = failed.fault or fault
            if self._place.pool.is_external:
                self._faults.add(self._place.pool.name, failed)
        counted = self._share or self.meter
        return self.tried.record(counted, round(self._clock() * 1e6), _outcome(failed), fault)


def _outcome(failed: BaseException | None) -> str:
    if failed is None:
        return "answered"
    if isinstance(failed, UpstreamError):
        return failed.outcome
    return "cancelled" if isinstance(failed, asyncio.CancelledError) else "failed"


async def _until_first_token(answer: OpenAIAnswer) -> tuple[list[Frame], list[Frame]]:
    """Up to the frame with it, and what came behind that frame at the same time. A server that has
    said its role and no more has not begun: it can still be passed over."""
    opening: list[Frame] = []
    while frames := await answer.more():
        for place, frame in enumerate(frames, 1):
            opening.append(frame)
            if frame.says_something or len(opening) == OPENING_FRAMES_MAX:
                return opening, frames[place:]
    return opening, []


def _callers_fault(rejection: Rejection, payload: Payload) -> ApiError:
    if rejection.code == "context_length_exceeded":
        return context_length_exceeded(rejection.message, rejection.param or payload.param)
    return bad_request(rejection.message, rejection.param, rejection.code)
