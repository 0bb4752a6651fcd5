"""How often calls come and spot replicas go, from what was counted in a time. Pure.

A rate begins as its prior, and what is counted takes its place: a gamma prior of the count of a
Poisson process (Gelman et al., Bayesian Data Analysis, 2.6). Guards that more arrivals never raise
a price, that more losses never lower one, and that nothing counted gives the prior.
"""

from math import log
from typing import Final, NamedTuple

PRIOR_CALLS_PER_START: Final = 8.0
"""Calls that share the cost of a start, as long as nobody counted any."""
PRIOR_KEEP_ALIVES: Final = 0.1
"""How many idle times of a pool the prior weighs."""
PRIOR_LOSSES_PER_S: Final = 1 / (3 * 3600)
"""A spot replica is taken away once in three hours, as long as nobody counted any. Public traces
have 0.7 to 10.4 hours (skypilot-org/spot-traces)."""
PRIOR_LOSSES: Final = 1.0
"""How many losses the prior weighs."""
STEP: Final = 1.1
"""What is learned here moves in steps of a tenth: a decision keeps what it knows of a pool until
the pool is in another state."""


class Occurrences(NamedTuple):
    """How often something happened while it was watched for."""

    times: float = 0.0
    watched_s: float = 0.0


NOTHING_COUNTED = Occurrences()


def calls_per_start(arrivals: Occurrences, idle_s: float) -> float:
    """Calls that are expected of a start: those that come while the pool stays warm without any,
    but at least the one that it is started for."""
    prior, keep_alives = PRIOR_KEEP_ALIVES, arrivals.watched_s / idle_s
    return max(1.0, (PRIOR_CALLS_PER_START * prior + arrivals.times) / (prior + keep_alives))


def losses_per_s(losses: Occurrences) -> float:
    """Of one replica; `watched_s` are those of all replicas together."""
    prior_s = PRIOR_LOSSES / PRIOR_LOSSES_PER_S
    return (PRIOR_LOSSES + losses.times) / (prior_s + losses.watched_s)


def in_steps(value: float, prior: float) -> float:
    """The nearest of the steps, of which the prior is one. Monotone."""
    return prior * STEP ** round(log(value / prior) / log(STEP))
