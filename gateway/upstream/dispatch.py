"""Step 6: walk a Decision until an answer begins.

Takes the candidates in their order: a warm replica is tried, a cold pool is waited for in the
waiting room within the deadline, and what fails before its first frame is failed over. Nothing is
sent to a server outside before all its output is held. Shapes no output. Every attempt is
recorded, every wait is bounded and left again.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from billing.types import MOVED, AttemptKind
from gateway.call.attempt import kind_after
from gateway.call.leases import Leases
from gateway.call.model_permits import ModelPermits
from gateway.call.open_call import OpenCall
from gateway.call.request import Payload
from gateway.catalog.fleet import FleetKeeper, outside_id
from gateway.errors import (
    ApiError,
    bad_request,
    context_length_exceeded,
    insufficient_quota,
    overloaded,
    provider_misconfigured,
)
from gateway.health.breakers import PROBE_PAUSE_S, Breakers
from gateway.moves.arrived import Arrived
from gateway.moves.move import Move, extended, may_move, move_of
from gateway.moves.said import Said
from gateway.speeds.learner import Learner
from gateway.upstream.answer import (
    Cut,
    HintsRefused,
    Late,
    LeftAlone,
    Lost,
    Misconfigured,
    Rejected,
    Rejection,
    Saturated,
    Unreachable,
    UpstreamError,
    failure_of,
)
from gateway.upstream.come_again import AGAIN_S_MAX, NOBODY_KNOWS_S
from gateway.upstream.faults import Faults
from gateway.upstream.hedging import Hedging, Tried
from gateway.upstream.live import LiveAnswer, LiveAttempt
from gateway.upstream.openai import OpenAIUpstream
from gateway.upstream.places import Place, Places
from routing.decide import decide
from routing.health.after_failure import Circumstances, Step, Why, after_failure
from routing.health.failures import Failure, FailureKind
from routing.health.retries import RetryBudget
from routing.plans import Plans
from routing.policy.action import Retries
from routing.types import (
    AUTO_MODEL,
    Call,
    Candidate,
    CapacityClass,
    Clock,
    Refusal,
    RefusalKind,
    Tier,
)

ROUNDS_MAX = 4
SATURATED_PAUSE_S = 0.25
"""How long a replica that took no more calls is left alone before it is asked again."""
LEAVE_WITHIN_S = 3.0
"""So long another worker may take for the first token of an answer that is still told here."""
LEAVE_PAUSE_S = 0.5
"""Until it is asked again, where it could not."""
FAILED_PAUSE_S = 0.5
"""The same for one that failed: its drain may be called off, and a broken connection says little
about the next. Never for ever, or a call would outwait its deadline beside the only replica."""

OF_A_KEY = frozenset({FailureKind.REFUSED_US, FailureKind.COOL_DOWN})
"""Of an account with several keys another one is asked."""
TOO_MANY_RETRIES = "Several servers fail just now, and no further try is made for this call."
NOT_COVERED = (
    "No worker of ours could take the call, and what is left of its budget or credit does not cover"
    " it at a server outside, where all of 'max_tokens' is held at once. A smaller 'max_tokens'"
    " costs less."
)


@dataclass(slots=True)
class _Trail:
    """What a walk has tried. `avoided` says until when a place is left alone, by its id."""

    avoided: dict[str, float]
    asked: Counter[str] = field(default_factory=Counter)
    """How often each place was asked."""
    retries: int = 0
    """Attempts beyond the first one, but for those that our own workers turned away at the door."""
    failure: Failure | None = None
    """The last one. None: nothing was tried, or the last try was turned away at the door."""
    retry_after_s: float | None = None
    may_recover: bool = False
    lacks_money: bool = False
    model: str | None = None
    """Whose places are asked now, where the policy names others to fall back on."""
    models_limited: set[str] = field(default_factory=set)
    """Whose own limits have not let the call in."""
    models_done: set[str] = field(default_factory=set)

    def goes_on_to_another_model(self, candidates: Iterable[Candidate]) -> bool:
        """False where there is none that was not tried."""
        if self.model is None:
            return False
        self.models_done.add(self.model)
        others = (each.model for each in candidates if each.model not in self.models_done)
        self.model = next(others, None)
        return self.model is not None


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
        permits: ModelPermits,
        learner: Learner,
        plans: Plans,
        breakers: Breakers,
        clock: Clock,
        refuse_retry: Callable[[str, str], None],
    ) -> None:
        """`refuse_retry` counts calls without a further attempt, by model and pool."""
        self._fleet = fleet
        self._refuse_retry = refuse_retry
        self._breakers = breakers
        self._learner = learner
        self._faults = faults
        self._leases = leases
        self._permits = permits
        self._places = places
        self._upstream = upstream
        self._plans = plans
        self._clock = clock
        self._budget = RetryBudget(clock())
        self._hurried = 0
        self.attempts: set[LiveAttempt] = set()
        """Those that are open."""
        self._hedging = Hedging(fleet, places, leases, self.attempts)

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
        self,
        open_call: OpenCall,
        payload: Payload,
        move: Move | None = None,
        left: str = "",
        rounds: int = ROUNDS_MAX,
    ) -> tuple[LiveAttempt, LiveAnswer]:
        """Whoever calls it closes the attempt; what failed before has been closed. Of a `move` the
        place `left` is left alone, and in a first round nobody is waited for."""
        trail = _Trail({left: self._clock() + move.pause_s} if move else {})
        if not open_call.attempts:
            self._budget.called()
        candidates: Iterable[Candidate] = open_call.decision.eligible
        if move is None and len(open_call.call.models) > 1:
            trail.model = _model_first(open_call)
        round_number = -1
        while (round_number := round_number + 1) < rounds:
            for candidate in candidates:
                if candidate.model not in open_call.call.models:
                    continue
                if candidate.model in trail.models_limited:
                    continue
                if trail.model is not None and candidate.model != trail.model:
                    continue
                if move is not None and not move.may_go_to(candidate):
                    continue
                patient = round_number > 0 or not trail.avoided
                match = await self._places.find(
                    open_call, candidate, payload, trail.avoided, patient
                )
                if match is None:
                    continue
                served_by, place = match
                if move is not None and not move.may_go_to(served_by):
                    continue
                is_outside = place.pool.is_external
                if is_outside and not await self._leases.covers_all(open_call, served_by.model):
                    trail.avoided[place.id] = math.inf
                    trail.lacks_money = True
                    continue
                if not await self._permits.take(open_call, served_by.model):
                    trail.models_limited.add(served_by.model)
                    trail.may_recover = True
                    continue
                if trail.failure is not None:
                    self._grant(open_call, trail, trail.failure, served_by)
                try:
                    if move is not None:
                        return await self._try(open_call, served_by, place, move)
                    if open_call.call.tier is not Tier.PRIORITY:
                        return await self._try_first(open_call, served_by, place)
                    tried = Tried(open_call, payload, served_by, trail.avoided)
                    return await self._first_of(tried, place)
                except Rejected as rejected:
                    if move is not None or not self._goes_on_larger(open_call, trail, rejected):
                        raise _callers_fault(rejected.rejection, payload) from rejected
                    round_number = -1
                    break
                except UpstreamError as failed:
                    self._note(open_call, trail, place, failed, move)
            again = self._candidates_now(open_call)
            again = candidates = [e for e in again if e.model not in trail.models_limited]
            own = [each for each in again if trail.model in (None, each.model)]
            goes_on = round_number < rounds - 1 and bool(own)
            if goes_on and await self._pause(open_call, own, trail.avoided):
                continue
            if not trail.goes_on_to_another_model(again):
                break
            round_number = -1
        raise self._refusal(open_call, trail)

    def _goes_on_larger(self, open_call: OpenCall, trail: _Trail, rejected: Rejected) -> bool:
        """A server that says that the call is too long for its model: whether the policy names a
        larger one. From now on the call is on those alone."""
        call, action = open_call.call, open_call.decision.matched.action
        done = {*trail.models_done, trail.model}
        larger = [each for each in action.larger_models if each in call.models and each not in done]
        at = Circumstances(
            other_place=False,
            fallback_model=bool(larger),
            times_asked=1,
            left_s=call.deadline_s - self._clock(),
            retries_left=_retries(open_call).most - trail.retries,
        )
        if after_failure(failure_of(rejected), at).step is not Step.FALLBACK_MODEL:
            return False
        open_call.keep_to(tuple(larger))
        trail.model = larger[0]
        return True

    def _grant(
        self, open_call: OpenCall, trail: _Trail, failure: Failure, candidate: Candidate
    ) -> None:
        """One attempt more at this candidate, if the table has one. Raises ApiError."""
        now_s = self._clock()
        at = Circumstances(
            other_place=True,
            fallback_model=False,
            times_asked=1,
            left_s=open_call.call.deadline_s - now_s,
            retries_left=_retries(open_call).most - trail.retries,
            has_budget=self._budget.take(now_s),
        )
        why = after_failure(failure, at).why
        if why is Why.BUDGET:
            self._refuse_retry(candidate.model, candidate.pool)
        if why in (Why.RETRIES, Why.BUDGET):
            raise overloaded(TOO_MANY_RETRIES, self._again_s(open_call, trail))
        trail.retries += 1

    def _note(
        self,
        open_call: OpenCall,
        trail: _Trail,
        place: Place,
        failed: UpstreamError,
        move: Move | None,
    ) -> None:
        """Whether and when this call asks the place again."""
        now_s = self._clock()
        if isinstance(failed, LeftAlone):
            trail.avoided[place.id] = now_s + PROBE_PAUSE_S
            trail.may_recover = True
            return
        failure = failure_of(failed)
        is_of_key = place.key_id is not None and failure.kind in OF_A_KEY
        asked = place.label if is_of_key else place.id
        trail.asked[asked] += 1
        trail.may_recover |= not isinstance(failed, Misconfigured)
        if isinstance(failed, Saturated) and failed.retry_after_s:
            pause_s = min(failed.retry_after_s, AGAIN_S_MAX)
            trail.retry_after_s = min(pause_s, trail.retry_after_s or pause_s)
        if place.pool.is_external and move is None:
            trail.failure = failure
            trail.avoided[asked] = now_s + self._again_in_s(open_call, trail, asked, failure)
            return
        at_the_door = isinstance(failed, Saturated | Unreachable)
        trail.failure = None if at_the_door or move is not None else failure
        pause_s = _pause_s(failed, move)
        if move is not None and place.pool.is_external and isinstance(failed, Saturated):
            pause_s = min(failed.retry_after_s or pause_s, AGAIN_S_MAX)
        trail.avoided[place.id] = now_s + pause_s

    def _again_in_s(
        self, open_call: OpenCall, trail: _Trail, asked: str, failure: Failure
    ) -> float:
        """Seconds until a server outside is asked again, if there is nobody else; inf: never by
        this call."""
        at = Circumstances(
            other_place=False,
            fallback_model=False,
            times_asked=trail.asked[asked],
            retry_after_s_max=_retries(open_call).retry_after_s_max,
            left_s=open_call.call.deadline_s - self._clock(),
            retries_left=_retries(open_call).most - trail.retries,
        )
        follows = after_failure(failure, at)
        return follows.wait_s if follows.step in (Step.WAIT, Step.ONCE_MORE) else math.inf

    def _refusal(self, open_call: OpenCall, trail: _Trail) -> ApiError:
        """Of a call that nobody took."""
        if trail.lacks_money:
            return insufficient_quota(NOT_COVERED, open_call.principal.quota_status)
        if trail.avoided and not trail.may_recover:
            return provider_misconfigured()
        return overloaded("No worker could take the call.", self._again_s(open_call, trail))

    def _again_s(self, open_call: OpenCall, trail: _Trail) -> float:
        """When another call may come. What this one never asks again is no reason to wait."""
        if trail.retry_after_s:
            return trail.retry_after_s
        until = {place: s for place, s in trail.avoided.items() if s < math.inf}
        return self._places.again_s(open_call, until)

    async def _pause(
        self, open_call: OpenCall, candidates: Sequence[Candidate], avoided: Mapping[str, float]
    ) -> bool:
        """Until a server outside may be asked again, where there is nobody else; False where none
        may be. Pools of our own are waited for in `Places.find`."""
        if any(each.capacity_class is not CapacityClass.EXTERNAL for each in candidates):
            return True
        now_s = self._clock()
        again_s = min((avoided.get(outside_id(each.pool), now_s) for each in candidates), default=0)
        if again_s > open_call.call.deadline_s:
            return False
        if again_s > now_s:
            await asyncio.sleep(again_s - now_s)
        return True

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

    async def _first_of(self, tried: Tried, place: Place) -> tuple[LiveAttempt, LiveAnswer]:
        """This attempt, or a second one beside it where it is slow and the call may have one."""
        open_call, _, candidate, _ = tried
        after_s = self._hedging.after_s(open_call, candidate)
        trying = self._try_first(open_call, candidate, place)
        if after_s is None:
            return await trying

        async def begin(other: Candidate, there: Place) -> tuple[LiveAttempt, LiveAnswer]:
            attempt, opened, _ = await self._begin(open_call, other, there, AttemptKind.HEDGE)
            return attempt, opened

        (attempt, opened), is_second = await self._hedging.race(tried, begin).run(trying, after_s)
        if is_second:
            attempt.serves(opened, self._places)
        return attempt, opened

    def _try_first(
        self, open_call: OpenCall, candidate: Candidate, place: Place
    ) -> Coroutine[Any, Any, tuple[LiveAttempt, LiveAnswer]]:
        """A server that is slower than usual is left early, while there are retries for all calls
        that may leave theirs: else one that slows down would cost calls that it would answer. Half
        of these are for priority calls alone."""
        hurried = self._places.first_place(open_call, candidate, place)
        if hurried is place:
            return self._try(open_call, candidate, place, None)
        left = self._budget.left(self._clock())
        if self._hurried >= (left if open_call.call.tier is Tier.PRIORITY else left // 2):
            return self._try(open_call, candidate, place, None)
        return self._try_hurried(open_call, candidate, hurried)

    async def _try_hurried(
        self, open_call: OpenCall, candidate: Candidate, place: Place
    ) -> tuple[LiveAttempt, LiveAnswer]:
        self._hurried += 1
        try:
            return await self._try(open_call, candidate, place, None)
        finally:
            self._hurried -= 1

    async def _try(
        self, open_call: OpenCall, candidate: Candidate, place: Place, move: Move | None
    ) -> tuple[LiveAttempt, LiveAnswer]:
        """A server outside that refuses a hint is asked once more, without any."""
        try:
            return await self._try_once(open_call, candidate, place, move)
        except HintsRefused as refused:
            bare = msgspec.structs.replace(place, target=place.target.without_hints())
            attempt = await self._try_once(open_call, candidate, bare, move)
            self._places.leave_out(refused.hints, place)
            return attempt

    async def _try_once(
        self, open_call: OpenCall, candidate: Candidate, place: Place, move: Move | None = None
    ) -> tuple[LiveAttempt, LiveAnswer]:
        """Await the first frame, from which on it serves the call; on failure nothing stays
        open."""
        kind = AttemptKind.RESUME if move else kind_after(open_call.attempts, candidate.model)
        attempt, opened, departed = await self._begin(open_call, candidate, place, kind)
        if move is None:
            attempt.serves(opened, self._places)
            if departed is not None:
                await attempt.close(departed)
                raise departed
        return attempt, opened

    async def _begin(
        self, open_call: OpenCall, candidate: Candidate, place: Place, kind: AttemptKind
    ) -> tuple[LiveAttempt, LiveAnswer, asyncio.CancelledError | None]:
        """Open the stream and await its first frame; on failure nothing stays open."""
        left_s = open_call.call.deadline_s - self._clock()
        if left_s <= 0:
            raise overloaded("The deadline cannot be met.", self._places.again_s(open_call, {}))
        is_own = not place.pool.is_external
        if not self._places.has_room(place, open_call):
            raise LeftAlone(place.id)
        visit = self._breakers.visit(place.scopes, is_last_resort=is_own)
        if visit is None:
            raise LeftAlone(place.id)
        state = self._fleet.state(candidate.pool)
        watch = self._learner.sent_call(open_call.call, place.pool, state, place.id)
        open_place = self._places.open(place, open_call)
        attempt = LiveAttempt(
            *(open_call, candidate, place, self._fleet, open_place, watch),
            *(self._faults, self._clock, self.attempts, kind, visit),
        )
        try:
            opened, departed = await attempt.begin(self._upstream, self._places, left_s)
        except BaseException as failed:
            await attempt.close(failed)
            raise
        return attempt, opened, departed


def _retries(open_call: OpenCall) -> Retries:
    return open_call.decision.matched.action.retries


def _model_first(open_call: OpenCall) -> str | None:
    """Of a call that may end on several models: whose places are asked first, where it names one
    and may fall back on the others."""
    is_auto = open_call.call.model_requested == AUTO_MODEL
    return None if is_auto else open_call.decision.chosen.model


def _pause_s(failed: UpstreamError, move: Move | None) -> float:
    """How long a replica is left alone by this call. One that was silent is not asked twice."""
    if isinstance(failed, Misconfigured) or (isinstance(failed, Late) and move is None):
        return math.inf
    if isinstance(failed, Saturated):
        return SATURATED_PAUSE_S
    return FAILED_PAUSE_S if move is None else move.pause_s


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

    async def move(self, arrived: Arrived | Said, lost: Cut) -> LiveAnswer:
        """Go on at another place where this one was lost, stalls or talks nonsense. Raises `lost`
        where that cannot be: what refuses the call there does not hide how it was cut here."""
        await self._attempt.close(lost)
        if not self._may_move(arrived):
            raise lost
        call = self._open_call.call
        try:
            return await self._moved(arrived, extended(call, self._dispatcher.now_s), ROUNDS_MAX)
        except ApiError as refused:
            raise lost from refused

    async def leave(self, arrived: Arrived | Said, here: LiveAnswer) -> LiveAnswer:
        """Go on at another worker before this one ends. It is left once the other one answers, so
        nothing is lost where nobody takes the call; then the answer goes on `here`. At the last
        moment it is left all the same, to wait for whoever comes."""
        attempt = self._attempt
        if not self._may_move(arrived):
            attempt.stays = True
        else:
            try:
                return await self._moved(arrived, self._call_for_now(), 1)
            except ApiError as refused:
                attempt.stays = refused.status == 400
            if attempt.is_last and not attempt.stays:
                return await self.move(arrived, Lost("its replica ends"))
        attempt.goes_on_here(self._dispatcher.now_s + LEAVE_PAUSE_S)
        return here._replace(opening=[], behind=[])

    def _call_for_now(self) -> Call:
        return self._open_call.call._replace(deadline_s=self._dispatcher.now_s + LEAVE_WITHIN_S)

    def _may_move(self, arrived: Arrived | Said) -> bool:
        arrived.gather()
        open_call, meter = self._open_call, self._open_call.meter
        assert meter is not None, "an answer moves after it has begun"
        pool, is_over = self._attempt.pool, meter.is_complete
        return not is_over and may_move(open_call.call, open_call.attempts, pool, arrived)

    async def _moved(self, arrived: Arrived | Said, call: Call, rounds: int) -> LiveAnswer:
        """Where it has gone on. Raises ApiError where nobody takes it; nothing has changed then."""
        open_call, before = self._open_call, self._attempt
        served, meter, attempts = open_call.served, open_call.meter, open_call.attempts
        assert served is not None and meter is not None, "an answer moves after it has begun"
        number = len(attempts) - before.is_closed
        move = move_of(served, meter, arrived, attempts)
        try:
            self._attempt, opened = await self._walk(move, call, rounds)
        except ApiError as refused:
            anew = move.anew() if refused.status == 400 else None
            if anew is None or not isinstance(arrived, Said):
                raise
            arrived.is_prefix_refused, move = True, anew
            self._attempt, opened = await self._walk(move, call, rounds)
        if not before.is_closed:
            await before.close(None)
            attempts.insert(number, attempts.pop())
        attempts[number] = msgspec.structs.replace(attempts[number], outcome=MOVED)
        return self._attempt.goes_on(opened, move)

    async def _walk(self, move: Move, bounded: Call, rounds: int) -> tuple[LiveAttempt, LiveAnswer]:
        open_call, call = self._open_call, self._open_call.call
        open_call.resume, open_call.continuation = move.resume, move.continuation
        open_call.call = bounded._replace(models=call.models)
        place = self._attempt.place_id
        try:
            return await self._dispatcher.walk(open_call, self._payload, move, place, rounds)
        finally:
            open_call.resume = open_call.continuation = None
            open_call.call = call._replace(models=open_call.call.models)


def _callers_fault(rejection: Rejection, payload: Payload) -> ApiError:
    if rejection.code == "context_length_exceeded":
        return context_length_exceeded(rejection.message, rejection.param or payload.param)
    return bad_request(rejection.message, rejection.param, rejection.code)
