"""One call over several attempts: where an answer may go on whose worker was lost, and what its
next attempt is counted by. The call has a meter of its own, which goes on over all attempts; each
attempt has its share of it. An answer of own workers goes on by its tokens, one of a server outside
by its text. Pure."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from billing.types import MOVED, Attempt, Usage
from gateway.call.meter import Meter
from gateway.moves.arrived import Arrived
from gateway.moves.continuation import Continuation
from gateway.moves.said import Said
from routing.types import Call, Candidate, CapacityClass, Continues, Pool, Task

MOVES_MAX = 3
"""Of one call."""
MOVE_WITHIN_S = 10.0
"""How long a move may take at least, whatever is left of the call's deadline: that was met when the
answer began."""
LOST_PAUSE_S = 3.0
"""How long a place is left alone that an answer moves from, or could not move to: until the fleet
has heard that it is gone."""
OUTSIDE_PAUSE_S = 0.1
"""The same of a server outside, which is often the only one, before the first move of a call;"""
OUTSIDE_PAUSE_FACTOR = 3
"""and how much longer before each other one."""


class Move(msgspec.Struct, frozen=True):
    """How an answer goes on: `resume` is what the next worker of ours is told, or `continuation`
    how it goes on by its text; `meter` is the call's, and `base` what the attempts before it
    delivered. The place that it moves from is left alone for `pause_s`."""

    served: Candidate
    meter: Meter
    base: Usage
    resume: dict[str, Any] | None = None
    continuation: Continuation | None = None
    pause_s: float = LOST_PAUSE_S

    def may_go_to(self, candidate: Candidate) -> bool:
        """To the same weights only; by its tokens to workers of ours: others draw otherwise."""
        served = self.served
        is_same = (candidate.model, candidate.variant) == (served.model, served.variant)
        is_outside = candidate.capacity_class is CapacityClass.EXTERNAL
        return is_same and (self.continuation is not None or not is_outside)

    def anew(self) -> "Move | None":
        """The same after a server has refused to continue the text."""
        continuation = self.continuation
        if continuation is None or continuation.is_anew:
            return None
        return replace(self, continuation=dataclasses.replace(continuation, is_anew=True))


def extended(call: Call, now_s: float) -> Call:
    """With time for a move."""
    return call._replace(deadline_s=max(call.deadline_s, now_s + MOVE_WITHIN_S))


def kept(served: Candidate, choices: int) -> Arrived | Said:
    """What is kept of an answer, to go on with it."""
    is_outside = served.capacity_class is CapacityClass.EXTERNAL
    return Said(choices) if is_outside else Arrived(choices)


def may_move(call: Call, attempts: Sequence[Attempt], pool: Pool, arrived: Arrived | Said) -> bool:
    """Whether an answer can go on exactly where it was cut, and has not moved too often. Of one
    that nobody has seen yet no text is compared: its call is made anew."""
    if call.task is not Task.GENERATE or not arrived.exact or moves_of(attempts) >= MOVES_MAX:
        return False
    if isinstance(arrived, Arrived):
        return not pool.is_external
    if not pool.is_external:
        return call.stream
    return pool.continues is not Continues.OFF and (
        call.stream or pool.continues is Continues.PREFIX
    )


def moves_of(attempts: Sequence[Attempt]) -> int:
    return sum(attempt.outcome == MOVED for attempt in attempts)


def move_of(
    served: Candidate, meter: Meter, arrived: Arrived | Said, attempts: Sequence[Attempt]
) -> Move:
    """From `served`, of a call with this meter and these attempts."""
    if isinstance(arrived, Arrived):
        return Move(served, meter, meter.usage, resume=arrived.resume(meter))
    continuation = Continuation(arrived.choices, meter.usage, arrived.is_prefix_refused)
    pause_s = OUTSIDE_PAUSE_S * OUTSIDE_PAUSE_FACTOR ** moves_of(attempts)
    is_outside = served.capacity_class is CapacityClass.EXTERNAL
    return Move(
        *(served, meter, meter.usage),
        continuation=continuation,
        pause_s=pause_s if is_outside else LOST_PAUSE_S,
    )


class Share:
    """Of the call's meter what an attempt delivered that went on behind `base`. The tokens that it
    computed again are no part of any usage: they are in its share of the replica's time."""

    def __init__(self, meter: Meter, base: Usage) -> None:
        self._meter = meter
        self._base = base
        meter.busy_us = 0

    @property
    def reported(self) -> Usage:
        whole, base = self._meter.reported, self._base
        return replace(
            whole,
            output=max(0, whole.output - base.output),
            reasoning=max(0, whole.reasoning - base.reasoning),
        )

    @property
    def busy_us(self) -> int:
        return self._meter.busy_us
