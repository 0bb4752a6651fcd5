"""What the attempts of a call cost us, by the price of their pool that each has frozen on it.

Pure. On our own workers an attempt costs its share of the replica's time, rounded down. The replica
itself shares its time out (`workers/engines/sharing.py`). So the calls of a replica never cost more
than the replica did. Outside an attempt costs its units and its tokens: prompt and
completion are each rounded once to the even neighbour.

The attempt that the customer pays for is the cost of the call. All other attempts are wasted, and
stand among the capacity that nobody used. The bill of a life has the price of each of its
stretches. Where a price falls while an attempt runs, the attempt costs too much by its frozen
price. The same amount is missing from the cost on no record, so both together are still the bill.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from billing.prices.rounding import divide_half_even
from billing.types import Attempt, SettledCall, Usage

MICROSECONDS = 1_000_000
MTOK = 1_000_000


class AttemptCost(NamedTuple):
    """Amounts are nano-USD. `bought_nanousd` is the part that was bought by the token, and is a
    bill of its own. The rest is a part of the bill of a replica's life."""

    pool: str
    model: str
    nanousd: int
    bought_nanousd: int
    served: bool
    replica: str = ""


def cost_nanousd(attempt: Attempt) -> int:
    """The cost of an attempt: its share of a replica's time, rounded down, and the tokens that were
    bought."""
    return attempt.busy_us * attempt.nanousd_per_s // MICROSECONDS + bought_nanousd(attempt)


def bought_nanousd(attempt: Attempt) -> int:
    """The cost of units and tokens bought outside. A reasoning token costs as completion, and a
    cached one as prompt where it has no price of its own."""
    units = attempt.units * attempt.nanousd_per_unit
    if not (attempt.input_nanousd_per_mtok or attempt.output_nanousd_per_mtok):
        return units
    price, cached_price = attempt.input_nanousd_per_mtok, attempt.cached_input_nanousd_per_mtok
    cached = attempt.cached_input * (price if cached_price is None else cached_price)
    prompt = (attempt.input + attempt.cache_write) * price + cached
    completion = (attempt.output + attempt.reasoning) * attempt.output_nanousd_per_mtok
    return units + divide_half_even(prompt, MTOK) + divide_half_even(completion, MTOK)


def costs_of(call: SettledCall) -> list[AttemptCost]:
    """The cost of each attempt of a call, in their order."""
    serving = _serving(call)
    costs = []
    for attempt in call.attempts:
        bought = bought_nanousd(attempt)
        cost = attempt.busy_us * attempt.nanousd_per_s // MICROSECONDS + bought
        model = attempt.model or call.model
        served = attempt is serving
        costs.append(AttemptCost(attempt.pool, model, cost, bought, served, attempt.replica))
    return costs


def tokens_above_hold(call: SettledCall) -> tuple[int, int]:
    """Tokens of prompt and of completion that cost us something and that nobody was charged for.
    The server of the charged attempt reported more than was held."""
    serving = _serving(call)
    if serving is None:
        return 0, 0
    return above_hold(msgspec.structs.asdict(serving), call.usage)


def above_hold(attempt: Mapping[str, int], charged: Usage) -> tuple[int, int]:
    """Tokens above the hold of an attempt as it is booked, given the usage that was charged."""
    prompt = attempt["input"] + attempt["cached_input"] + attempt["cache_write"]
    completion = attempt["output"] + attempt["reasoning"]
    return max(0, prompt - charged.prompt), max(0, completion - charged.completion)


def _serving(call: SettledCall) -> Attempt | None:
    """The attempt that delivered what is charged: the last one that delivered anything. There is
    none where the call is charged for nothing."""
    if call.usage.is_nothing:
        return None
    for attempt in reversed(call.attempts):
        if attempt.pool == call.pool and attempt.delivered:
            return attempt
    return None
