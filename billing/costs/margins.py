"""What calls earned, what they cost us, and how much of the capacity behind them nobody used.

Read-only, from sums: by organization, model, pool or day, or of the whole fleet. A group that names
no organization has the unallocated cost beside it, and cost and unallocated are its bill. A group
that names one has no part in what nobody used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from billing.costs import store as costs
from billing.costs.capacity import CapacitySums, plus
from billing.db.engine import Store
from billing.usage import sums
from billing.usage.rollup import DAY_US, HOUR_US, SUMMED

_REQUESTS, _REVENUE, _COST = map(SUMMED.index, ("requests", "amount_nanousd", "cost_nanousd"))
NOTHING = CapacitySums()


class MarginBy(StrEnum):
    ORGANIZATION = "organization"
    MODEL = "model"
    POOL = "pool"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Margin:
    """The margin of one group, in nano-USD. A day is its first microsecond. `capacity` is None
    where the group names an organization."""

    group: dict[str, Any]
    requests: int
    revenue_nanousd: int
    cost_nanousd: int
    capacity: CapacitySums | None

    @property
    def margin_nanousd(self) -> int:
        """Revenue less the cost of calls. The cost of unused capacity is not taken off."""
        return self.revenue_nanousd - self.cost_nanousd

    @property
    def unrecorded_nanousd(self) -> int:
        """The cost of time that was computed and is on no call's record, or not yet. It is below
        zero where calls were booked before the reports of the replicas that computed them. It is
        not held to zero, because the sum has to hold at any moment: this, idle, cold starts and
        waste are the unallocated cost, and with the cost of calls the bill."""
        capacity = self.capacity or NOTHING
        return capacity.busy_nanousd - capacity.wasted_nanousd - self.cost_nanousd

    @property
    def bill_nanousd(self) -> int:
        return (self.capacity or NOTHING).bill_nanousd

    @property
    def unallocated_nanousd(self) -> int:
        return self.bill_nanousd - self.cost_nanousd

    @property
    def net_margin_nanousd(self) -> int:
        return self.revenue_nanousd - self.bill_nanousd


def whole_hours(from_us: int, to_us: int) -> tuple[int, int]:
    """The UTC hours that a span touches."""
    return from_us - from_us % HOUR_US, to_us + -to_us % HOUR_US


def margins(
    store: Store, from_us: int, to_us: int, group_by: Sequence[MarginBy] = ()
) -> list[Margin]:
    """The margins of the whole hours in [from, to), by the groups asked for and in their order.
    Without a group there is one margin, that of the fleet."""
    names = {MarginBy.ORGANIZATION: "org"}
    by = [names.get(dimension, dimension.value) for dimension in group_by]
    has_capacity = MarginBy.ORGANIZATION not in group_by
    with store.read() as conn:
        used = sums.summary(conn, from_us, to_us, by, {})
        capacity = _capacity(
            costs.capacity(conn, from_us, to_us, _columns(by)) if has_capacity else {}, by
        )
    counted = {tuple(group.values()): row for group, row in used}
    empty = (0,) * len(SUMMED)
    return [
        Margin(
            dict(zip(map(str, group_by), group, strict=True)),
            (row := counted.get(group, empty))[_REQUESTS],
            row[_REVENUE],
            row[_COST],
            capacity.get(group, NOTHING) if has_capacity else None,
        )
        for group in sorted({*counted, *capacity})
    ]


def _columns(by: Sequence[str]) -> list[str]:
    return ["hour_us" if name == "day" else name for name in by]


def _capacity(
    by_group: dict[tuple[Any, ...], CapacitySums], by: Sequence[str]
) -> dict[tuple[Any, ...], CapacitySums]:
    """Sums of hours, added up to days where a day is asked for."""
    if "day" not in by:
        return by_group
    place = by.index("day")
    days: dict[tuple[Any, ...], CapacitySums] = {}
    for cell, capacity in by_group.items():
        day = cell[place] - cell[place] % DAY_US
        group = (*cell[:place], day, *cell[place + 1 :])
        days[group] = plus(days.get(group, NOTHING), capacity)
    return days
