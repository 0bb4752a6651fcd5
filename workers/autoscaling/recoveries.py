"""When a pool that lost its replicas has one again, by what is gone and by how long it took before.

Pure. The loss shows step by step: a replica alone, then Ray that does not answer, then another
cluster. A call that is refused meanwhile gets this time, so it is rather too late than too early.
It is the longest of the last recoveries of its kind. A recovery that takes longer than that is
expected to take half as long again as it has taken so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

RECOVERIES_MAX = 5
"""Recoveries of each kind and pool."""
SOONEST_S = 0.5
TOGETHER_MS = 3_000
"""Pools that lose their replicas within this time lost what they have in common: Ray."""
SPARE = 1.25
"""So much longer than the longest so far: who comes too early is refused again."""


class LostPart(IntEnum):
    """What is gone. Each value includes those before it."""

    REPLICA = 1
    RAY = 2
    CLUSTER = 3


BEYOND_A_START_S = {LostPart.REPLICA: 0.0, LostPart.RAY: 12.0, LostPart.CLUSTER: 30.0}
"""What each adds to the start of a replica until it is measured (medians of `bench.recovery`)."""
Took = Mapping[str, tuple[float, ...]]
"""Seconds of the last recoveries, oldest first, by `kind`."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a pool that had a replica, is to have one, and has none."""

    gone: LostPart
    since_ms: int


def follow(loss: Loss | None, *, lost: bool, gone: LostPart, at_ms: int) -> Loss | None:
    """The loss after one more look. None when there is none, or none any more."""
    if not lost:
        return None
    if loss is None:
        return Loss(gone, at_ms)
    return replace(loss, gone=max(loss.gone, gone))


def kind(gone: LostPart, pool: str) -> str:
    return f"{gone.name.lower()}:{pool}"


def with_another(took: Took, loss: Loss, pool: str, at_ms: int) -> Took:
    """The recoveries so far with this one, which is over now."""
    which = kind(loss.gone, pool)
    took_s = round((at_ms - loss.since_ms) / 1000, 2)
    return {**took, which: (*took.get(which, ()), took_s)[-RECOVERIES_MAX:]}


def expected_s(took: Took, gone: LostPart, pool: str, cold_start_s: float) -> float:
    """Seconds from the loss to the next replica."""
    measured = took.get(kind(gone, pool), ())
    return SPARE * (max(measured) if measured else BEYOND_A_START_S[gone] + cold_start_s)


def together(losses: Mapping[str, Loss]) -> Mapping[str, Loss]:
    """The losses. More than a replica is gone in those that several pools had at one time."""
    return {
        pool: replace(loss, gone=max(loss.gone, LostPart.RAY))
        if any(
            abs(loss.since_ms - other.since_ms) <= TOGETHER_MS
            for name, other in losses.items()
            if name != pool
        )
        else loss
        for pool, loss in losses.items()
    }


def ready_in_s(loss: Loss, took: Took, pool: str, cold_start_s: float, at_ms: int) -> float:
    elapsed_s = (at_ms - loss.since_ms) / 1000
    left_s = expected_s(took, loss.gone, pool, cold_start_s) - elapsed_s
    return max(left_s if left_s > 0 else elapsed_s / 2, SOONEST_S)
