"""One try at one place, from its first byte to its record.

Owns what is open for it: a place that is counted, a connection, a meter or its share of one. Every
attempt is recorded once, however it ends.
"""

import asyncio
from typing import NamedTuple

from billing.types import OVERTAKEN, Attempt, AttemptKind, Usage
from gateway.call.attempt import Counted, OpenAttempt, PromptAlone
from gateway.call.frame import Frame
from gateway.call.meter import Meter
from gateway.call.open_call import OpenCall
from gateway.catalog.fleet import FleetKeeper
from gateway.errors import deadline_passed
from gateway.health.breakers import Visit
from gateway.moves.continuation import Continuation
from gateway.moves.leaving import OpenAnswer
from gateway.moves.move import Move, Share
from gateway.providers.key_limits import OpenKey
from gateway.replicas.placement import OpenPlace
from gateway.speeds.learner import SentCall
from gateway.upstream.answer import Cut, Differs, Late, Saturated, UpstreamError, failure_of
from gateway.upstream.faults import Faults
from gateway.upstream.hints import note_of
from gateway.upstream.http1.exchange import Interrupted, SeenThrough
from gateway.upstream.joined import JoinedAnswer
from gateway.upstream.openai import OpenAIAnswer, OpenAIUpstream
from gateway.upstream.places import Place, Places
from routing.types import Candidate, Clock, Pool

OPENING_FRAMES_MAX = 64
"""Frames without a token that are kept until the first one comes."""


class LiveAnswer(NamedTuple):
    """An answer that has begun: the frame with its first token is here, what came before it, and
    `behind` it what has come already; `answer` has the rest."""

    candidate: Candidate
    meter: Meter
    opening: list[Frame]
    behind: list[Frame]
    answer: OpenAIAnswer | JoinedAnswer


class LiveAttempt:
    """One try at one place: in flight from here on, until `close` ends whatever it opened and
    writes it into the call's record."""

    def __init__(
        self,
        open_call: OpenCall,
        candidate: Candidate,
        place: Place,
        fleet: FleetKeeper,
        open_place: OpenPlace | OpenKey | None,
        watch: SentCall,
        faults: Faults,
        clock: Clock,
        register: "set[LiveAttempt]",
        kind: AttemptKind,
        visit: Visit,
    ) -> None:
        """It stands in the `register` while it is open."""
        register.add(self)
        self._visit = visit
        self._register = register
        self._faults = faults
        self._sent = watch
        self.open_call = open_call
        self.candidate = candidate
        self._place = place
        self._fleet = fleet
        self._counted = open_place
        self._clock = clock
        self._answer: OpenAIAnswer | None = None
        self.started_us = round(clock() * 1e6)
        self.tried = OpenAttempt(
            *(place.pool, place.label, candidate.model, self.started_us, kind, place.rates),
            unit=open_call.call.unit,
        )
        self.meter: Meter | None = None
        self._share: Share | Meter | None = None
        self.is_closed = False
        self.stays = False
        """Where it cannot move: it ends here, whatever becomes of its replica."""
        self._is_interrupted = False
        self.is_last = False
        """Its node ends at once."""
        self.rests_until_s = 0.0
        self._is_overtaken = False
        self._seen_through: SeenThrough | None = None
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
        if target.whole is not None and self.tried.kind is not AttemptKind.HEDGE:
            self._seen_through = SeenThrough()
        seen_through = self._seen_through
        try:
            opened = await self._open(upstream, min(left_s, first_token_s), seen_through)
        except Exception as failed:
            if seen_through is not None and seen_through.departed is not None:
                raise seen_through.departed from failed
            if isinstance(failed, Late) and left_s <= first_token_s:
                again_s = places.again_s(self.open_call, {})
                raise deadline_passed(
                    "The deadline passed before the answer began.", again_s
                ) from failed
            raise
        self._visit.answered()
        return opened, seen_through.departed if seen_through is not None else None

    async def _open(
        self, upstream: OpenAIUpstream, within_s: float, seen_through: SeenThrough | None
    ) -> LiveAnswer:
        target, candidate = self._place.target, self.candidate
        self._answer = answer = await upstream.open(target, within_s, seen_through)
        meter = Meter(self.open_call.call.prompt_tokens[candidate.model], target.choices)
        try:
            if answer.is_document:
                return LiveAnswer(candidate, meter, [await answer.document()], [], answer)
            opening, behind = await _until_first_token(answer)
        except Interrupted as interrupted:
            raise Cut("its replica ends before the first token") from interrupted
        answer.begun()
        return LiveAnswer(candidate, meter, opening, behind, answer)

    def standing(self, now_s: float, *, has_place: bool) -> "OpenAnswer[LiveAttempt] | None":
        """How much of its answer is left. None where it does not move, or does already."""
        if self.stays or self._is_interrupted or self._answer is None:
            return None
        call, meter = self.open_call.call, self.open_call.meter
        output = meter.output if meter is not None and self._has_begun else 0
        first_s = meter.first_token_s if meter is not None else None
        pace = output / max(1e-3, now_s - first_s) if output and first_s is not None else 0.0
        rests = self.rests_until_s > now_s
        return OpenAnswer(self, call.output_tokens_max - output, pace, has_place and not rests)

    @property
    def _has_begun(self) -> bool:
        return self.meter is not None or self._share is not None

    def interrupt(self, *, is_last: bool) -> None:
        """Have whoever reads its answer go on elsewhere."""
        assert self._answer is not None, "what stands somewhere has an answer"
        self._is_interrupted, self.is_last = True, is_last
        self._answer.interrupt()

    def goes_on_here(self, until_s: float) -> None:
        """Nobody else took it. Until then it is not interrupted again."""
        self._is_interrupted, self.rests_until_s = False, until_s

    def overtake(self) -> None:
        """Another attempt of the call has its first token before this one: the next cancellation
        ends it."""
        self._is_overtaken = True
        if self._seen_through is not None:
            self._seen_through.departed = asyncio.CancelledError()

    def serves(self, opened: LiveAnswer, places: Places) -> None:
        """Its first token is here, and the call is answered by it."""
        for frame in opened.opening:
            opened.meter.observe(frame, self._clock())
        places.computed(self._place, self.open_call)
        if self._counted is not None:
            self._counted.computed(opened.meter)
        self.open_call.serve_from(self.candidate, opened.meter, self.started_us, self.tried)
        self.answers(opened.meter)

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

    @property
    def pool(self) -> Pool:
        return self._place.pool

    def goes_on(self, opened: LiveAnswer, move: Move) -> LiveAnswer:
        """All of its frames are to be counted by the meter of the call, and covered like others."""
        if move.continuation is not None:
            return self._goes_on_by_text(opened, move, move.continuation)
        self._share = Share(move.meter, move.base)
        if self._counted is not None:
            self._counted.computed(move.meter)
        self.open_call.go_on_from(self.candidate, self._share, self.tried)
        behind = [*opened.opening, *opened.behind]
        return opened._replace(meter=move.meter, opening=[], behind=behind)

    def _goes_on_by_text(
        self, opened: LiveAnswer, move: Move, continuation: Continuation
    ) -> LiveAnswer:
        """It has a meter of its own: what it says again is our cost."""
        assert isinstance(opened.answer, OpenAIAnswer), "an answer is joined once"
        self._share = own = opened.meter
        self.open_call.go_on_from(self.candidate, own, self.tried)
        begun = [*opened.opening, *opened.behind]
        joint = continuation.joint(by_prefix=self._place.by_prefix)
        joined = JoinedAnswer(opened.answer, begun, own, joint, self._clock)
        return opened._replace(meter=move.meter, opening=[], behind=[], answer=joined)

    async def close(self, failed: BaseException | None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._register.discard(self)
        self._fleet.ended(self._place.id, self._place.pool.name)
        if self._counted is not None:
            self._counted.close()
        self._tell(failed)
        if self.meter is not None:
            choices = self._place.target.choices
            self._sent.ended(self.meter, choices, self._clock(), came_whole=self._came_whole)
        self.open_call.attempts.append(self._record(failed))
        if self._answer is not None:
            kind, trace = (type(failed), failed.__traceback__) if failed else (None, None)
            await self._answer.__aexit__(kind, failed, trace)

    def _tell(self, failed: BaseException | None) -> None:
        """The breakers. A replica of ours that is full says nothing of its health, nor does an
        answer that differs from another one."""
        if failed is None:
            self._visit.end()
            return
        is_full = isinstance(failed, Saturated) and not self._place.pool.is_external
        is_faultless = is_full or isinstance(failed, Differs)
        if isinstance(failed, UpstreamError) and not is_faultless:
            self._visit.failed(failure_of(failed))
        else:
            self._visit.end()

    def _record(self, failed: BaseException | None) -> Attempt:
        fault = note_of(self._place.target.left_out)
        if isinstance(failed, UpstreamError):
            fault = failed.fault or fault
            if self._place.pool.is_external and not isinstance(failed, Differs):
                self._faults.add(self._place.pool.name, failed)
        counted: Counted | None = self._share or self.meter
        outcome = _outcome(failed)
        if self._is_overtaken and isinstance(failed, asyncio.CancelledError):
            outcome, counted = OVERTAKEN, self._prompt_outside()
        return self.tried.record(counted, round(self._clock() * 1e6), outcome, fault)

    def _prompt_outside(self) -> PromptAlone | None:
        """What an attempt that was overtaken costs us at a server outside, which says nothing of
        it: the prompt, which it has most likely read."""
        if not self._place.pool.is_external:
            return None
        tokens = self.open_call.call.likely_prompt_tokens(self.candidate.model)
        return PromptAlone(Usage(input=tokens))


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
