"""One call over several attempts: where an answer may go on whose worker was lost, and what its
next attempt is counted by. The call has a meter of its own, which goes on over all attempts; each
attempt has its share of it. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from billing.types import MOVED, Attempt, Usage
from gateway.call.meter import Meter
from gateway.moves.arrived import Arrived
from routing.types import Call, Candidate, CapacityClass, Task

MOVES_MAX = 3
"""Of one call."""
MOVE_WITHIN_S = 10.0
"""How long a move may take at least, whatever is left of the call's deadline: that was met when the
answer began."""


class Move(msgspec.Struct, frozen=True):
    """How an answer goes on: `resume` is what the next worker is told, `meter` the call's, and
    `base` what the attempts before it delivered."""

    served: Candidate
    meter: Meter
    base: Usage
    resume: dict[str, Any]

    def may_go_to(self, candidate: Candidate) -> bool:
        """To the same weights only, and to workers of ours: others count and draw otherwise."""
        served = self.served
        return (candidate.model, candidate.variant) == (
            served.model,
            served.variant,
        ) and candidate.capacity_class is not CapacityClass.EXTERNAL


def extended(call: Call, now_s: float) -> Call:
    """With time for a move."""
    return call._replace(deadline_s=max(call.deadline_s, now_s + MOVE_WITHIN_S))


def may_move(call: Call, attempts: Sequence[Attempt], served: Candidate, arrived: Arrived) -> bool:
    """Whether an answer can go on exactly where it was cut, and has not moved too often."""
    moves = sum(attempt.outcome == MOVED for attempt in attempts)
    is_own = served.capacity_class is not CapacityClass.EXTERNAL and call.task is not Task.EMBED
    return is_own and arrived.exact and moves < MOVES_MAX


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
