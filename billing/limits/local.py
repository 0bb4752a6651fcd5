"""Rates of one process for the time that Redis is away: the same buckets, each with a share of its
limit.

All of `processes` together admit at most `share` of burst + rate x time. Buckets are kept between
two outages, so that many short outages admit no more than a long one. Their number is bounded: with
more end users than that, the ones seen longest ago begin anew.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from billing.limits.contract import Contract, Rated, Units
from billing.limits.gcra import Bucket, Wait, correct, cost_us, remaining, take
from billing.limits.rates import refusal
from billing.limits.types import Dimension, RateState, Refused


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a call in one bucket."""

    rated: Rated
    mark_us: int
    counted_us: int


@dataclass(frozen=True, slots=True)
class LocalPermit:
    places: tuple[Place, ...]
    processes: int
    rates: dict[Dimension, RateState]


class NeverHere(Exception):
    """The call is larger than one process may ever admit."""


class LocalRates:
    def __init__(self, *, share: float, buckets_max: int) -> None:
        self._share = share
        self._buckets_max = buckets_max
        self._buckets: OrderedDict[tuple[str, Dimension], Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def admit(
        self, contract: Contract, units: Units, *, processes: int, now_us: int
    ) -> LocalPermit | Refused:
        """Take from every bucket, or from none. Raises NeverHere."""
        places: list[Place] = []
        filled: list[tuple[Rated, Bucket]] = []
        for _, rated in contract.rated:
            cost = self._cost_us(rated, units, processes)
            if cost > rated.tolerance_us:
                raise NeverHere(f"{rated.scope} on {rated.dimension}")
            bucket = self._buckets.get((rated.scope, rated.dimension), Bucket())
            outcome = take(bucket, now_us=now_us, cost_us=cost, tolerance_us=rated.tolerance_us)
            if isinstance(outcome, Wait):
                return refusal(rated.scope, rated.dimension, outcome.wait_us)
            filled.append((rated, outcome.bucket))
            places.append(Place(rated, outcome.mark_us, cost))
        for rated, bucket in filled:
            self._keep(rated, bucket)
        return LocalPermit(tuple(places), processes, self._tightest(filled, processes, now_us))

    def settle(self, permit: LocalPermit, used: Units, *, refund: bool, now_us: int) -> None:
        """Correct the buckets by what was really used. The request itself comes back only with a
        refund."""
        for place in permit.places:
            rated = place.rated
            if rated.dimension is Dimension.REQUESTS:
                actual_us = 0 if refund else place.counted_us
            else:
                actual_us = self._cost_us(rated, used, permit.processes)
            bucket = self._buckets.get((rated.scope, rated.dimension))
            delta_us = actual_us - place.counted_us
            if bucket is not None and delta_us:
                corrected = correct(bucket, now_us=now_us, mark_us=place.mark_us, delta_us=delta_us)
                self._keep(rated, corrected)

    def _cost_us(self, rated: Rated, units: Units, processes: int) -> int:
        whole = cost_us(units.of(rated.dimension), rated.per_minute)
        return -(-whole * processes * 1000 // round(self._share * 1000))

    def _keep(self, rated: Rated, bucket: Bucket) -> None:
        place = rated.scope, rated.dimension
        self._buckets[place] = bucket
        self._buckets.move_to_end(place)
        if len(self._buckets) > self._buckets_max:
            self._buckets.popitem(last=False)

    def _tightest(
        self, filled: list[tuple[Rated, Bucket]], processes: int, now_us: int
    ) -> dict[Dimension, RateState]:
        """For each dimension the limit that has the least left in this process."""
        states: dict[Dimension, RateState] = {}
        for rated, bucket in filled:
            level_us = bucket.tat_us - now_us
            room = remaining(
                level_us=level_us, tolerance_us=rated.tolerance_us, per_minute=rated.per_minute
            )
            room = int(room * self._share / processes)
            if rated.dimension not in states or room < states[rated.dimension].remaining:
                reset_ms = -(-level_us // 1000)
                states[rated.dimension] = RateState(rated.scope, rated.per_minute, room, reset_ms)
        return states
