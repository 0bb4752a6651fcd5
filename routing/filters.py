"""Why a pool cannot take a call: each filter answers a reason, or None to let it pass.

Pure functions over one pool's state, asked in the order of `FILTERS`; the first reason stands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from routing.types import Call, Model, PoolState, RefusalKind, ReplicaState

ANSWER_S_MIN = 0.005
"""Sooner no model begins an answer, on whatever hardware."""


class Weighed(NamedTuple):
    """One pool's state with what the scorers and filters need to know of it."""

    state: PoolState
    model: Model
    call: Call
    wait_s: float
    now_s: float


@dataclass(frozen=True, slots=True)
class Ruling:
    kind: RefusalKind
    reason: str


def is_allowed(weighed: Weighed) -> Ruling | None:
    capacity_class, allowed = weighed.state.pool.capacity_class, weighed.call.capacity_classes
    if allowed is None or capacity_class in allowed:
        return None
    return Ruling(RefusalKind.FORBIDDEN, f"the key may not use {capacity_class.value} capacity")


def fits_context(weighed: Weighed) -> Ruling | None:
    needed = weighed.call.context_needed(weighed.model.name)
    if needed <= weighed.model.context_tokens:
        return None
    return Ruling(
        RefusalKind.CONTEXT_LENGTH,
        f"the call needs {needed} tokens of context, the window has {weighed.model.context_tokens}",
    )


def may_run(weighed: Weighed) -> Ruling | None:
    state = weighed.state
    if state.pool.is_external or any(r.state is ReplicaState.WARM for r in state.replicas):
        return None
    if state.pool.max_replicas < 1:
        return Ruling(RefusalKind.CAPACITY, "the pool may have no replicas")
    if state.blocked_reason:
        return Ruling(RefusalKind.CAPACITY, state.blocked_reason)
    return None


def in_time(weighed: Weighed) -> Ruling | None:
    left_s = weighed.call.deadline_s - weighed.now_s
    if weighed.wait_s + ANSWER_S_MIN < left_s:
        return None
    return Ruling(
        RefusalKind.DEADLINE,
        f"ready in about {weighed.wait_s:.1f} s, the deadline is in {left_s:.1f} s",
    )


FILTERS: tuple[Callable[[Weighed], Ruling | None], ...] = (
    is_allowed,
    fits_context,
    may_run,
    in_time,
)


def ruling(weighed: Weighed) -> Ruling | None:
    """The first reason against this pool, or None."""
    for check in FILTERS:
        if (found := check(weighed)) is not None:
            return found
    return None
