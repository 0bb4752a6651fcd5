"""The generic cell rate algorithm in integer microseconds, as admit.lua and settle.lua compute it.

A bucket is one number, `tat`: the time at which it will be empty. Its level is `tat - now`, and its
size is the tolerance. A unit costs the microseconds in which it leaks. Costs round up, so that no
rounding admits more than `burst + rate x time` (plus one microsecond's worth). Law: units that were
taken and really used never exceed that, plus what was declared too low.

A call that declared too much gets back only what has not leaked yet. Its place in the bucket is
remembered as `mark = tat + refunded`. Every refund since moves the mark towards the present, at
most as far as the bucket really moved. So a call never gets back more than it still occupies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MINUTE_US = 60_000_000
UNITS_MAX = 100_000_000
"""Largest cost in units, so that `units x MINUTE_US` stays exact in a double."""


def cost_us(units: int, per_minute: int) -> int:
    """How long `units` take to leak, rounded up. A rate of 0 never leaks: ZeroDivisionError."""
    return -(-units * MINUTE_US // per_minute)


@dataclass(frozen=True, slots=True)
class Bucket:
    tat_us: int = 0
    refunded_us: int = 0


@dataclass(frozen=True, slots=True)
class Fill:
    bucket: Bucket
    mark_us: int


@dataclass(frozen=True, slots=True)
class Wait:
    wait_us: int


def take(bucket: Bucket, *, now_us: int, cost_us: int, tolerance_us: int) -> Fill | Wait:
    """Fill the bucket by the cost, or return how long to wait until it fits."""
    tat_us = max(bucket.tat_us, now_us) + cost_us
    over_us = tat_us - now_us - tolerance_us
    if over_us > 0:
        return Wait(over_us)
    return Fill(replace(bucket, tat_us=tat_us), tat_us + bucket.refunded_us)


def correct(bucket: Bucket, *, now_us: int, mark_us: int, delta_us: int) -> Bucket:
    """Add a debt (`delta_us` above 0) or give back what has not leaked (below 0)."""
    if delta_us > 0:
        return replace(bucket, tat_us=max(bucket.tat_us, now_us) + delta_us)
    back_us = min(-delta_us, mark_us - bucket.refunded_us - now_us)
    if back_us <= 0:
        return bucket
    return Bucket(bucket.tat_us - back_us, bucket.refunded_us + back_us)


def remaining(*, level_us: int, tolerance_us: int, per_minute: int) -> int:
    """Whole units that would fit now."""
    return max(0, (tolerance_us - level_us) * per_minute // MINUTE_US)
