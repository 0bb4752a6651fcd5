"""How fast a pool serves one more call, in the state that the fleet is in.

Owns the figures that a decision, the choice of a replica and the fleet share, and what stands for
them before anything was measured. Knows no pool and no call.
"""

from math import exp
from statistics import NormalDist
from typing import Final, NamedTuple

from routing.economics.calibration import PRIOR_SIGMA

GUESS_PREFILL_TOKENS_PER_S: Final = 4000.0
GUESS_DECODE_TOKENS_PER_S: Final = 100.0
QUANTILES: Final = (0.05, 0.5, 0.9, 0.95, 0.99)
GUESS_FACTORS: Final = tuple(exp(PRIOR_SIGMA * NormalDist().inv_cdf(each)) for each in QUANTILES)


class Speeds(NamedTuple):
    """Seconds. An empty prompt has its first token after `first_fixed_s`: scheduling, the prompts
    that wait before it and the step that runs. Each token of the prompt that is not cached adds
    `first_s_per_token`, each token after the first `step_s`."""

    first_fixed_s: float
    first_s_per_token: float
    step_s: float
    busy_s_per_token: float
    """Of a replica's time, for each token of an answer: a usual step, shared by the calls that are
    usually in it. The load of the instant does not count, or a fuller pool would look cheaper."""
    ttft_factors: tuple[float, ...] = GUESS_FACTORS
    """What the expected time to the first token is multiplied with, for each of `QUANTILES`."""
    busy_s_per_prompt_token: float | None = None
    """Of a replica's time, for each token of a prompt. None: nobody knows it apart from the time to
    the first token."""

    step_s_most: float | None = None
    """The 99th percentile of `step_s`. None: no answer was measured yet."""

    @property
    def prompt_busy_s(self) -> float:
        rate = self.busy_s_per_prompt_token
        return self.first_s_per_token if rate is None else rate


def guessed_speeds(max_ongoing: int) -> Speeds:
    """Before anything was measured: constants, and steps that all `max_ongoing` calls share."""
    step_s = 1 / GUESS_DECODE_TOKENS_PER_S
    return Speeds(0.0, 1 / GUESS_PREFILL_TOKENS_PER_S, step_s, step_s / max(1, max_ongoing))
