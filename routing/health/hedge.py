"""When a second attempt is made beside one that is slow to begin, and how many there may be.

After J. Dean and L. A. Barroso, "The Tail at Scale" (CACM 56, 2013): a second request, once the
first has taken longer than nearly all of its kind, costs little and cuts the tail. Pure; times are
handed in. Knows no attempt and no task.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from routing.policy.action import Hedge
from routing.speeds import QUANTILES, Speeds
from routing.types import Call, Candidate, PoolState, Task, Tier

QUANTILE: Final = 0.95
MEDIANS: Final = 2.0
WAIT_MIN_S: Final = 0.05
"""Sooner no second attempt is made: below that a busy machine is no slow server."""
SAVED_MAX: Final = 10.0
"""The most second attempts that are saved up while all is well."""


def hedge_after_s(hedge: Hedge, call: Call, state: PoolState | None) -> float | None:
    """Seconds without a token from this pool, after which the call is sent to another one beside
    it: the 95th percentile for a prompt of this size, and at least twice the median. None: never.
    Without anything learned of the pool only an operator's `after_s` says when."""
    if call.tier is not Tier.PRIORITY or call.task is not Task.GENERATE or hedge.share <= 0:
        return None
    if hedge.after_s is not None:
        return hedge.after_s
    if state is None or state.learned is None:
        return None
    speeds = state.learned
    expected_s = first_token_s(speeds, call.likely_prompt_tokens(state.pool.model))
    median_s, most_s = (expected_s * _factor(speeds, each) for each in (0.5, QUANTILE))
    return max(WAIT_MIN_S, most_s, MEDIANS * median_s)


def first_token_s(speeds: Speeds, prompt_tokens: int) -> float:
    return speeds.first_fixed_s + speeds.first_s_per_token * prompt_tokens


def _factor(speeds: Speeds, quantile: float) -> float:
    return speeds.ttft_factors[QUANTILES.index(quantile)]


def beside(candidates: Iterable[Candidate], taken: Candidate) -> Iterator[Candidate]:
    """Where a second attempt may go, in order: the same model, so that the customer's price is the
    same, in another pool."""
    return (each for each in candidates if each.model == taken.model and each.pool != taken.pool)


class HedgeBudget:
    """After any sequence of calls, no more second attempts were granted than the sum of the shares
    of those calls. Few of them are saved up, so that an outage does not double the calls."""

    def __init__(self) -> None:
        self._left = 0.0

    def called(self, share: float) -> None:
        """A call that may have a second attempt is sent for the first time."""
        self._left = min(SAVED_MAX, self._left + share)

    def take(self) -> bool:
        """Whether one may be made, which is taken then."""
        if self._left < 1:
            return False
        self._left -= 1
        return True
