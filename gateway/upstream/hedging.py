"""A second attempt beside one that is slow to begin, for priority calls.

Owns how many of them there may be (`routing/health/hedge.py` says when) and where they go: to a
place of the same model in another pool that can begin now. Nobody is waited for, and nothing is
sent to a server outside before all output is held. The one that is overtaken is our cost.
"""

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from billing.types import AttemptKind
from gateway.call.leases import Leases
from gateway.call.open_call import OpenCall
from gateway.call.request import Payload
from gateway.catalog.fleet import FleetKeeper
from gateway.errors import ApiError
from gateway.upstream.answer import UpstreamError
from gateway.upstream.live import LiveAnswer, LiveAttempt
from gateway.upstream.places import Place, Places
from gateway.upstream.race import Race
from routing.health.hedge import HedgeBudget, beside, hedge_after_s
from routing.types import Candidate

Begun = tuple[LiveAttempt, LiveAnswer]
Begin = Callable[[Candidate, Place], Awaitable[Begun]]
"""Opens an attempt up to its first token, without the call being served by it yet."""


class Tried(NamedTuple):
    """A call whose first attempt goes to `candidate`; `avoided` says until when places are left
    alone."""

    open_call: OpenCall
    payload: Payload
    candidate: Candidate
    avoided: Mapping[str, float]


class Hedging:
    def __init__(
        self, fleet: FleetKeeper, places: Places, leases: Leases, attempts: set[LiveAttempt]
    ) -> None:
        """`attempts` are those that are open."""
        self._fleet = fleet
        self._places = places
        self._leases = leases
        self._attempts = attempts
        self._budget = HedgeBudget()

    def after_s(self, open_call: OpenCall, candidate: Candidate) -> float | None:
        """Seconds until a second attempt may be made; None: there is none. Asked once for each
        attempt; a call has one second attempt at most."""
        hedge = open_call.decision.matched.action.hedge
        state = self._fleet.state(candidate.pool)
        after_s = hedge_after_s(hedge, open_call.call, state)
        if after_s is None:
            return None
        if not open_call.attempts:
            self._budget.called(hedge.share)
        was_hedged = any(each.kind is AttemptKind.HEDGE for each in open_call.attempts)
        return None if was_hedged else after_s

    def race(self, tried: Tried, begin: Begin) -> Race[Begun]:
        async def second() -> Begun | None:
            return await self._second(tried, begin)

        return Race(second, lambda by_second: self._overtake(tried.open_call, by_second), _drop)

    async def _second(self, tried: Tried, begin: Begin) -> Begun | None:
        """None where there is no other place, no money or no more of the share, and where it
        fails: that stands in its record."""
        open_call, payload, taken, avoided = tried
        for candidate in beside(open_call.decision.eligible, taken):
            match = await self._places.find(open_call, candidate, payload, {**avoided}, False)
            if match is None:
                continue
            served_by, place = match
            is_outside, model = place.pool.is_external, served_by.model
            if is_outside and not await self._leases.covers_all(open_call, model):
                continue
            if not self._budget.take():
                return None
            try:
                return await begin(served_by, place)
            except (UpstreamError, ApiError):
                return None
        return None

    def _overtake(self, open_call: OpenCall, by_second: bool) -> None:
        for attempt in self._attempts:
            is_second = attempt.tried.kind is AttemptKind.HEDGE
            if attempt.open_call is open_call and is_second is not by_second:
                attempt.overtake()


async def _drop(begun: Begun) -> None:
    attempt, _ = begun
    await attempt.close(CancelledError())
