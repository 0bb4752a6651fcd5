"""What a pool costs us from which instant on. Pure arithmetic over frozen values."""

from collections.abc import Sequence
from typing import NamedTuple


class DatedCost(NamedTuple):
    """From `starts_us` (epoch microseconds) on. None: as the pool says without a date."""

    starts_us: int
    cost_nanousd_per_s: int | None = None
    cost_input_nanousd_per_mtok: int | None = None
    cost_output_nanousd_per_mtok: int | None = None
    cost_cached_input_nanousd_per_mtok: int | None = None
    cost_nanousd_per_unit: int | None = None


def cost_at(costs: Sequence[DatedCost], at_us: int) -> DatedCost | None:
    """The last one that has begun. None: none has."""
    in_force = [cost for cost in costs if cost.starts_us <= at_us]
    return max(in_force, key=lambda cost: cost.starts_us, default=None)


def next_start_us(costs: Sequence[DatedCost], at_us: int) -> int | None:
    """When the next one begins. None: none does."""
    return min((cost.starts_us for cost in costs if cost.starts_us > at_us), default=None)
