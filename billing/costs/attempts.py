"""What the attempts of a call cost us, by the price of their pool that each has frozen on it.

Pure. On our own workers an attempt costs its share of the replica's time, as the replica itself
shared it out (`workers/engines/sharing.py`), rounded down: so what the calls of a replica cost
never exceeds what the replica did. Outside it costs its tokens, each of two components rounded once
to the even neighbour. The attempt that the customer pays for is the cost of the call; all others
are wasted, and stand among what nobody used. The bill of a life has the price of each of its
stretches: where a price falls while an attempt runs, what that attempt costs too much is missing
from what was computed and is on no record, and both together are still the bill.
"""

from __future__ import annotations

from typing import NamedTuple

from billing.rounding import divide_half_even
from billing.types import Attempt, SettledCall

MICROSECONDS = 1_000_000
MTOK = 1_000_000


class AttemptCost(NamedTuple):
    """In nano-USD. `bought` is what of it was bought by the token, and so is a bill of its own;
    the rest is a part of the bill of a replica's life."""

    pool: str
    model: str
    nanousd: int
    bought_nanousd: int
    served: bool


def cost_nanousd(attempt: Attempt) -> int:
    """Its share of a replica's time, rounded down, and the tokens that were bought."""
    return attempt.busy_us * attempt.nanousd_per_s // MICROSECONDS + bought_nanousd(attempt)


def bought_nanousd(attempt: Attempt) -> int:
    """What is cached or reasoned costs as what it is a part of: pools have two prices."""
    if not (attempt.input_nanousd_per_mtok or attempt.output_nanousd_per_mtok):
        return 0
    prompt = attempt.input + attempt.cached_input + attempt.cache_write
    completion = attempt.output + attempt.reasoning
    return divide_half_even(prompt * attempt.input_nanousd_per_mtok, MTOK) + divide_half_even(
        completion * attempt.output_nanousd_per_mtok, MTOK
    )


def costs_of(call: SettledCall) -> list[AttemptCost]:
    """Of each attempt, in their order."""
    serving = _serving(call)
    costs = []
    for attempt in call.attempts:
        bought = bought_nanousd(attempt)
        cost = attempt.busy_us * attempt.nanousd_per_s // MICROSECONDS + bought
        model = attempt.model or call.model
        costs.append(AttemptCost(attempt.pool, model, cost, bought, attempt is serving))
    return costs


def _serving(call: SettledCall) -> Attempt | None:
    """The attempt that delivered what is charged: the last that delivered anything, and none where
    the call is charged for nothing."""
    if not (call.input or call.output or call.cached_input or call.cache_write or call.reasoning):
        return None
    for attempt in reversed(call.attempts):
        if attempt.pool == call.pool and attempt.delivered:
            return attempt
    return None
