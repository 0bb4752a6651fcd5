"""What follows a failure before an answer has begun: one table, for whole and streamed calls alike.

In this order: what is the caller's own goes back to it; nothing follows past the deadline or the
bounds of retries; another place of the same model is asked at once; where there is none, a
`retry-after` is waited out, or the same place is asked once more; then another model. Pure.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from routing.health.failures import OF_THE_CALL, ONCE_MORE, Failure, FailureKind

RETRY_AFTER_S_MAX: Final = 5.0
"""The longest `retry-after` that a call waits out, where no policy says otherwise."""
ONCE_MORE_S: Final = 0.25
"""Before the same place is asked once more."""
RETRIES_MAX: Final = 8
"""Attempts of a call beyond its first one, where no policy says otherwise."""


class Step(StrEnum):
    ANOTHER_PLACE = "another_place"
    """Of the same model, at once."""
    WAIT = "wait"
    """`retry-after` is waited out, and then the same place asked."""
    ONCE_MORE = "once_more"
    """The same place, in a moment."""
    FALLBACK_MODEL = "fallback_model"
    GIVE_UP = "give_up"


class Why(StrEnum):
    """Why a call is given up."""

    CALLERS = "callers"
    DEADLINE = "deadline"
    RETRIES = "retries"
    """It has had its attempts, by its policy."""
    BUDGET = "retry_budget"
    """All calls together have had theirs."""
    NOBODY_LEFT = "nobody_left"


class Next(NamedTuple):
    """`wait_s` is how long to wait before the step. `why` is None unless the call is given up."""

    step: Step
    wait_s: float = 0.0
    why: Why | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """Of a call whose attempt has just failed. Times are seconds."""

    other_place: bool
    """Whether another place of the same model may be asked now."""
    fallback_model: bool
    """Whether the policy names another model for a failure of this kind, which the call has not
    tried. False where the call disables fallbacks."""
    times_asked: int
    """How often this call has asked this place, at least 1."""
    left_s: float
    """Until the deadline."""
    retries_left: int
    has_budget: bool = True
    retry_after_s_max: float = RETRY_AFTER_S_MAX


def after_failure(failure: Failure, at: Circumstances) -> Next:
    """The row of the table for this failure."""
    if failure.kind is FailureKind.CONTEXT_LENGTH and at.fallback_model and at.left_s > 0:
        return Next(Step.FALLBACK_MODEL)
    if failure.kind in OF_THE_CALL:
        return _give_up(Why.CALLERS)
    if at.left_s <= 0:
        return _give_up(Why.DEADLINE)
    if at.retries_left <= 0:
        return _give_up(Why.RETRIES)
    if not at.has_budget:
        return _give_up(Why.BUDGET)
    if at.other_place:
        return Next(Step.ANOTHER_PLACE)
    if (wait_s := _waits(failure, at)) is not None:
        step = Step.WAIT if failure.kind is FailureKind.COOL_DOWN else Step.ONCE_MORE
        return Next(step, wait_s)
    if at.fallback_model:
        return Next(Step.FALLBACK_MODEL)
    return _give_up(Why.NOBODY_LEFT)


def _waits(failure: Failure, at: Circumstances) -> float | None:
    """Seconds until the same place is asked again; None where it is not."""
    if failure.kind is FailureKind.COOL_DOWN:
        wait_s = failure.retry_after_s
        if wait_s is None or wait_s > at.retry_after_s_max or at.times_asked > 1:
            return None
        return wait_s if wait_s < at.left_s else None
    if failure.kind in ONCE_MORE and at.times_asked == 1 and at.left_s > ONCE_MORE_S:
        return ONCE_MORE_S
    return None


def _give_up(why: Why) -> Next:
    return Next(Step.GIVE_UP, why=why)
