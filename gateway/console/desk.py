"""What the pages share: the parts of the gateway, and what is remembered between two looks."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from billing.queries import DecidedCall, Timing, UsageSum
from gateway.console.ended import EndedSessions
from gateway.console.guesses import Guesses
from gateway.console.names import Names
from gateway.console.remembered import Remembered
from gateway.parts import Parts

CALLS_AGE_S = 1.0
TODAY_AGE_S = 4.0
EARLIER_AGE_S = 300.0
TIMINGS_AGE_S = 4.0


@dataclass(frozen=True, slots=True)
class Desk:
    parts: Parts
    guesses: Guesses
    ended: EndedSessions
    names: Names
    calls: Remembered[Sequence[DecidedCall]]
    today: Remembered[Sequence[UsageSum]]
    earlier: Remembered[Sequence[UsageSum]]
    timings: Remembered[Sequence[Timing]]

    @property
    def now_us(self) -> int:
        return round(self.parts.outside.clock() * 1e6)


def make_desk(parts: Parts) -> Desk:
    return Desk(
        parts=parts,
        guesses=Guesses(),
        ended=EndedSessions(parts.redis),
        names=Names(parts.tenants),
        calls=Remembered(CALLS_AGE_S),
        today=Remembered(TODAY_AGE_S),
        earlier=Remembered(EARLIER_AGE_S),
        timings=Remembered(TIMINGS_AGE_S),
    )


def desk_of(request: Request) -> Desk:
    desk: Desk = request.app.state.console
    return desk
