"""A pool that cannot start is left alone for a while, longer each time, and says so.

Without this a broken model is started for ever: every waiting call looks like demand for one more
attempt. The quarantine doubles from `backoff_ms` to `backoff_max_ms`. A warm replica clears all
failures.
"""

from dataclasses import replace

from workers.autoscaling.sleeping import without_sleepers
from workers.autoscaling.types import (
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ScaleDecision,
    Step,
)


def note_failure(view: PoolView, memory: PoolMemory, knobs: Knobs) -> PoolMemory:
    """Count a failed or endless start, and open the quarantine that follows it."""
    why = _failure(view, memory, knobs)
    if why is None:
        return memory
    failures = memory.failures + 1
    pause_ms = min(knobs.backoff_ms * 2 ** min(failures - 1, 30), knobs.backoff_max_ms)
    return replace(
        without_sleepers(memory),
        target=0,
        failures=failures,
        failure=why,
        quarantined_until_ms=view.at_ms + pause_ms,
        attempts_since_ms=view.at_ms,
        start_since_ms=None,
        loading_since_ms=None,
        shortage_since_ms=None,
        excess_since_ms=None,
        drain=None,
    )


def quarantine(view: PoolView, memory: PoolMemory) -> Step | None:
    """The decision to run zero replicas until the quarantine ends. None when there is none, or it
    is over."""
    until_ms = memory.quarantined_until_ms
    if until_ms is None or view.at_ms >= until_ms:
        return None
    left_s = (until_ms - view.at_ms) / 1000
    detail = f"{memory.failures} failed starts, next in {left_s:.0f} s: {memory.failure}"
    ids = frozenset(r.id for r in view.replicas)
    return memory, ScaleDecision(0, Reason.QUARANTINED, detail, ids, ids, until_ms)


def _failure(view: PoolView, memory: PoolMemory, knobs: Knobs) -> str | None:
    if memory.target == 0 or view.replicas_in(Phase.WARM) or memory.drain is not None:
        return None
    if memory.loading_since_ms is None:
        return None
    if view.failure is not None:
        return view.failure
    died = sum(started_ms >= memory.attempts_since_ms for started_ms in view.deaths_ms)
    if died >= knobs.start_attempts and not view.replicas:
        return view.error or f"{died} replicas died before one answered"
    if view.at_ms - memory.loading_since_ms > knobs.start_timeout_ms:
        return f"no replica answered within {knobs.start_timeout_ms / 1000:.0f} s"
    return None
