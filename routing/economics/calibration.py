"""What a part really reaches, learned from observed calls, and how far predictions are off.

A time is `overhead + sum(ceiling / efficiency)`: the ceilings are the roofline's, the efficiencies
are what the field calls MFU for prompts and bandwidth efficiency for steps. All are fitted by
exponentially weighted least squares of relative errors, from a prior. Knows no clock and no pool.
A calibration keeps a few sums and the last RESIDUALS_MAX residuals, whatever it observes.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import exp, isfinite, log
from statistics import NormalDist, median

EFFICIENCY_MIN, EFFICIENCY_MAX = 0.05, 1.0
"""What is outside was not measured, or not of this part."""
SLOPE_MOST = 1000.0
"""Of a ceiling that is a guess."""
FORGETTING = 0.995
"""The weight of an observation when the next one comes: half is forgotten after 138."""
ANCHOR = 0.02
"""Of the sums, the share with which what was believed before an observation still counts. It holds
a fit in place where all ceilings are alike and cannot tell the overhead from the slope."""
SWEEPS = 6
"""Rounds of Gauss and Seidel for each observation, from the solution of the last one on."""
SETTLING = 30
"""Observations whose residuals are left out: they measure the prior, not the fit. Until then each
weighs by what it was; later by what was predicted of it, or a fit to times that spread would learn
less than their mean."""
FAR = 8.0
"""Times what was predicted: once settled, an observation farther off pulls no more than this."""
RESIDUALS_MAX = 256
PRIOR_SIGMA = 0.5
"""Of the logarithm of observed over predicted time, before enough was observed."""
SPREAD_ENOUGH = 30
"""Residuals from which their own quantiles are believed, instead of a lognormal's."""

Ceilings = tuple[float, ...]
"""Seconds, of what adds up to a time: a prompt's and a step's, for example."""


class Verdict(StrEnum):
    TAKEN = "taken"
    NO_NUMBER = "no_number"
    ABOVE_ROOFLINE = "above_roofline"
    """Faster than the part can be."""
    TOO_SLOW = "too_slow"
    """An efficiency below EFFICIENCY_MIN, whatever the overhead."""


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed before anything was observed. `overhead_max_s` bounds what a call may take
    beside its ceilings. Without a roofline (`is_bounded` False: external servers, CPUs of unknown
    bandwidth) a ceiling is a guess, which may be passed."""

    overhead_s: float
    overhead_max_s: float
    efficiency: float
    is_bounded: bool = True

    @property
    def slope_least(self) -> float:
        return 1 / EFFICIENCY_MAX if self.is_bounded else 0.0

    @property
    def slope_most(self) -> float:
        return 1 / EFFICIENCY_MIN if self.is_bounded else SLOPE_MOST


@dataclass(frozen=True, slots=True)
class Learned:
    """What a calibration knows, to be kept and given to another one of the same prior."""

    coefficients: list[float]
    products: list[list[float]]
    targets: list[float]
    residuals: list[float]
    taken: int


class Fit:
    """Overhead and slopes of a time over its ceilings; never outside of the prior's bounds."""

    __slots__ = ("_most", "_products", "_targets", "coefficients", "least")

    def __init__(self, prior: Prior, parts: int) -> None:
        self.coefficients = [prior.overhead_s, *[1 / prior.efficiency] * parts]
        self.least = [0.0, *[prior.slope_least] * parts]
        self._most = [prior.overhead_max_s, *[prior.slope_most] * parts]
        self._products = [[0.0] * (parts + 1) for _ in range(parts + 1)]
        self._targets = [0.0] * (parts + 1)

    def take(self, ceilings: Ceilings, observed_s: float, scale_s: float) -> None:
        """Errors are relative: each observation weighs the inverse square of `scale_s`."""
        values, weight = (1.0, *ceilings), 1 / (scale_s * scale_s)
        for row, value in zip(self._products, values, strict=True):
            for n, other in enumerate(values):
                row[n] = FORGETTING * row[n] + weight * value * other
        for n, value in enumerate(values):
            self._targets[n] = FORGETTING * self._targets[n] + weight * value * observed_s
        self._solve()

    def _solve(self) -> None:
        """Coordinate by coordinate, each inside of its bounds."""
        values, believed = self.coefficients, [*self.coefficients]
        for _ in range(SWEEPS):
            for n, row in enumerate(self._products):
                own = row[n]
                if own <= 0:
                    continue
                residual = sum(a * b for a, b in zip(row, values, strict=True)) - own * values[n]
                value = (
                    (self._targets[n] - residual + ANCHOR * own * believed[n]) / own / (1 + ANCHOR)
                )
                values[n] = min(self._most[n], max(self.least[n], value))

    def predict_s(self, ceilings: Ceilings) -> float:
        overhead_s, *slopes = self.coefficients
        return overhead_s + sum(a * b for a, b in zip(slopes, ceilings, strict=True))

    def learned(self, residuals: Iterable[float], taken: int) -> Learned:
        return Learned(self.coefficients, self._products, self._targets, [*residuals], taken)

    def restore(self, learned: Learned) -> None:
        """Raises ValueError for what is of another shape."""
        shape = (len(self.coefficients), len(self._products), len(self._targets))
        sizes = (len(learned.coefficients), len(learned.products), len(learned.targets))
        if shape != sizes or any(len(row) != shape[0] for row in learned.products):
            raise ValueError("a calibration of other parts")
        self.coefficients = [
            min(most, max(least, value))
            for value, least, most in zip(learned.coefficients, self.least, self._most, strict=True)
        ]
        self._products, self._targets = learned.products, learned.targets


class Spread:
    """Quantiles of observed over predicted time, of the last RESIDUALS_MAX observations."""

    __slots__ = ("_sorted", "in_order")

    def __init__(self, residuals: Iterable[float] = ()) -> None:
        self.in_order: deque[float] = deque(residuals, RESIDUALS_MAX)
        self._sorted = sorted(self.in_order)

    def take(self, ratio: float) -> None:
        residual = log(ratio)
        if len(self.in_order) == RESIDUALS_MAX:
            del self._sorted[bisect_left(self._sorted, self.in_order[0])]
        self.in_order.append(residual)
        insort(self._sorted, residual)

    def factor(self, quantile: float) -> float:
        """What a predicted time is multiplied with for its `quantile`, inside of (0, 1)."""
        count = len(self._sorted)
        if count < SPREAD_ENOUGH:
            return exp(PRIOR_SIGMA * NormalDist().inv_cdf(quantile))
        place = min(count - 1.0, max(0.0, quantile * (count + 1) - 1))
        below = int(place)
        above = min(count - 1, below + 1)
        share = place - below
        return exp(self._sorted[below] * (1 - share) + self._sorted[above] * share)


class Calibration:
    """One kind of time (to the first token, per token, or a replica's own) of one variant on one
    part, over `parts` ceilings."""

    __slots__ = ("_errors", "_fit", "_inside", "_prior", "_spread", "refused", "taken")

    def __init__(self, prior: Prior, parts: int = 1) -> None:
        self._prior = prior
        self._fit = Fit(prior, parts)
        self._spread = Spread()
        self._errors: deque[float] = deque(maxlen=RESIDUALS_MAX)
        self._inside: deque[bool] = deque(maxlen=RESIDUALS_MAX)
        self.taken = 0
        self.refused: dict[Verdict, int] = {}

    @property
    def efficiencies(self) -> tuple[float, ...]:
        """What is reached of each ceiling; above one where that was a guess."""
        return tuple(1 / max(slope, 1e-9) for slope in self._fit.coefficients[1:])

    @property
    def overhead_s(self) -> float:
        return self._fit.coefficients[0]

    @property
    def error(self) -> float | None:
        """The median of how far the last predictions were off, as a share of what came. Each was
        made before its observation. None: there are none yet."""
        return median(self._errors) if self._errors else None

    @property
    def inside(self) -> float | None:
        """The share of the same that came inside of nine in ten's interval."""
        return sum(self._inside) / len(self._inside) if self._inside else None

    def observe(
        self, ceilings: Ceilings, observed_s: float, line_s: float | None = None
    ) -> Verdict:
        """Learn from one time. What cannot be is counted, and changes nothing else. `told_s` is
        what was expected of it in public, where that is simpler than the fit."""
        verdict = self._judge(ceilings, observed_s)
        if verdict is not Verdict.TAKEN:
            self.refused[verdict] = self.refused.get(verdict, 0) + 1
            return verdict
        scale_s = observed_s
        if self.taken >= SETTLING:
            scale_s = max(1e-9, line_s or self._fit.predict_s(ceilings))
            observed_s = self._compare(scale_s, observed_s)
        self._fit.take(ceilings, observed_s, scale_s)
        self.taken += 1
        return verdict

    def _compare(self, predicted_s: float, observed_s: float) -> float:
        """What was predicted with what came; as far as that may pull."""
        least, middle, most = (predicted_s * self.factor(each) for each in (0.05, 0.5, 0.95))
        self._errors.append(abs(middle - observed_s) / observed_s)
        self._inside.append(least <= observed_s <= most)
        self._spread.take(observed_s / predicted_s)
        return min(predicted_s * FAR, max(predicted_s / FAR, observed_s))

    def _judge(self, ceilings: Ceilings, observed_s: float) -> Verdict:
        ceiling_s = sum(ceilings)
        is_number = isfinite(ceiling_s) and isfinite(observed_s) and min(ceilings) >= 0
        if not (is_number and ceiling_s > 0 < observed_s):
            return Verdict.NO_NUMBER
        if not self._prior.is_bounded:
            return Verdict.TAKEN
        if observed_s < ceiling_s / EFFICIENCY_MAX:
            return Verdict.ABOVE_ROOFLINE
        if observed_s > self._prior.overhead_max_s + ceiling_s / EFFICIENCY_MIN:
            return Verdict.TOO_SLOW
        return Verdict.TAKEN

    def predict_s(self, ceilings: Ceilings) -> float:
        """The expected time; at least the ceilings of a part whose roofline is known."""
        return self._fit.predict_s(ceilings)

    def factor(self, quantile: float) -> float:
        return self._spread.factor(quantile)

    def learned(self) -> Learned:
        return self._fit.learned(self._spread.in_order, self.taken)

    def restore(self, learned: Learned) -> None:
        """Go on from what another one learned. Raises ValueError for what is of another shape."""
        self._fit.restore(learned)
        self._spread = Spread(learned.residuals)
        self.taken = learned.taken
