"""The levels of buckets as a caller reads them: remaining units, resets, when to come back."""

from __future__ import annotations

from collections.abc import Sequence

from billing.limits.contract import Contract, Rated, Units
from billing.limits.gcra import MINUTE_US, cost_us
from billing.limits.types import Dimension, RateState, Refused

CONCURRENCY_RETRY_MS = 1_000
UNPRIMED_RETRY_MS = 1_000
BLOCKED_RETRY_MS = 60_000


def never_fits(units: Units, contract: Contract) -> Refused | None:
    """The refusal of a call that no waiting helps: it is larger than a bucket can ever hold, or a
    rate is zero."""
    if contract.has_room(units):
        return None
    blocked: Refused | None = None
    for _, rated in contract.rated:
        if rated.per_minute == 0 or rated.burst == 0:
            blocked = blocked or Refused(rated.scope, rated.dimension, BLOCKED_RETRY_MS)
        elif (amount := units.of(rated.dimension)) > rated.burst:
            return Refused(
                rated.scope,
                Dimension.TOO_LARGE,
                None,
                of=rated.dimension,
                units=amount,
                most=rated.burst,
            )
    return blocked


def refusal(scope: str, dimension: Dimension, wait_us: int) -> Refused:
    match dimension:
        case Dimension.BUDGET | Dimension.CREDIT:
            return Refused(scope, dimension, None)
        case Dimension.UNPRIMED:
            return Refused(scope, dimension, UNPRIMED_RETRY_MS)
        case Dimension.CONCURRENCY:
            return Refused(scope, dimension, CONCURRENCY_RETRY_MS)
        case _:
            return Refused(scope, dimension, -(-wait_us // 1000))


def tightest(
    contract: Contract, levels_us: Sequence[int], untaken: Units | None = None
) -> dict[Dimension, RateState]:
    """For each dimension the limit that has the least left, by the levels in the answer of admit.

    `untaken`: the call was refused, so the units that it would have taken count as left.
    """
    least: dict[Dimension, tuple[int, Rated, int]] = {}
    for place, rated in contract.rated:
        if not rated.per_minute:
            continue
        level_us = levels_us[place]
        if untaken is not None:
            cost = cost_us(untaken.of(rated.dimension), rated.per_minute)
            level_us = max(0, level_us - cost)
        room = (rated.tolerance_us - level_us) * rated.per_minute
        lowest = least.get(rated.dimension)
        if lowest is None or room < lowest[0]:
            least[rated.dimension] = (room, rated, level_us)
    return {
        dimension: RateState(
            rated.scope, rated.per_minute, max(0, room // MINUTE_US), -(-level_us // 1000)
        )
        for dimension, (room, rated, level_us) in least.items()
    }
