"""What the pages share: the parts of the gateway, and what is remembered between two looks."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from billing.queries import DecidedCall, MovedCall, Timing, UsageSum
from gateway.admin.outcomes.service import PolicyOutcomes
from gateway.console.cache import Cached
from gateway.console.login_attempts import LoginAttempts
from gateway.console.names import Names
from gateway.console.signed_out import SignedOutSessions
from gateway.parts import Parts

CALLS_AGE_S = 1.0
TODAY_AGE_S = 4.0
EARLIER_AGE_S = 300.0
TIMINGS_AGE_S = 4.0
OUTCOMES_AGE_S = 4.0
MOVES_AGE_S = 2.0


@dataclass(frozen=True, slots=True)
class ConsoleContext:
    parts: Parts
    guesses: LoginAttempts
    ended: SignedOutSessions
    names: Names
    calls: Cached[Sequence[DecidedCall]]
    today: Cached[Sequence[UsageSum]]
    earlier: Cached[Sequence[UsageSum]]
    timings: Cached[Sequence[Timing]]
    outcomes: Cached[PolicyOutcomes]
    moves: Cached[Sequence[MovedCall]]

    @property
    def now_us(self) -> int:
        return round(self.parts.outside.clock() * 1e6)


def make_context(parts: Parts) -> ConsoleContext:
    return ConsoleContext(
        parts=parts,
        guesses=LoginAttempts(),
        ended=SignedOutSessions(parts.redis),
        names=Names(parts.tenants),
        calls=Cached(CALLS_AGE_S),
        today=Cached(TODAY_AGE_S),
        earlier=Cached(EARLIER_AGE_S),
        timings=Cached(TIMINGS_AGE_S),
        outcomes=Cached(OUTCOMES_AGE_S),
        moves=Cached(MOVES_AGE_S),
    )


def context_of(request: Request) -> ConsoleContext:
    desk: ConsoleContext = request.app.state.console
    return desk
