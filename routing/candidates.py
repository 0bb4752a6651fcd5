"""Candidates as somebody reads them: words and rounded numbers, made from the rows of a decision.

A row is what was compared. Of fifty candidates usually one is read while the call runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, overload

from routing.cost import rounds_before, start_wait_s
from routing.filters import Ruling
from routing.plans import Weights
from routing.quality.model import sigmoid
from routing.types import Candidate, Tier

TOOK_OVER: Final = "took over from what was decided at first"


class Row(NamedTuple):
    """An eligible pool in the order of comparison: shelf, measure, score, tie. A lower shelf comes
    first; within it the lower measure, which is the score where the rule sorts by nothing else."""

    shelf: int
    measure: float
    score_nanousd: float
    tie: int
    weights: Weights
    wait_s: float

    @property
    def standing(self) -> tuple[int, float, float]:
        """What two rows are compared by, without chance."""
        return self.shelf, self.measure, self.score_nanousd


class RuledOut(NamedTuple):
    weights: Weights
    ruling: Ruling


@dataclass(slots=True)
class Reading:
    """What a row was weighed for. As `Terms` made to be read often."""

    tier: Tier
    prompt_tokens: Mapping[str, int]
    context_tokens: Mapping[str, int]
    output_tokens: float
    at_s: float
    in_flight: Mapping[str, int]
    quality_deviations: Mapping[str, float]
    prefix_tokens: Mapping[str, int] | None

    def candidate(self, row: Row | RuledOut) -> Candidate:
        weights = row.weights
        pool, (_, wait_s, first_s) = weights.terms.pool, self.times(weights)
        ruling = row.ruling if isinstance(row, RuledOut) else None
        exact = self.amounts_nanousd(weights, wait_s)
        amounts = {name: round(amount) for name, amount in exact.items()}
        return Candidate(
            pool=pool.name,
            model=pool.model,
            variant=pool.variant,
            capacity_class=pool.capacity_class,
            tier=self.tier,
            eligible=ruling is None,
            score_nanousd=round(self.score_nanousd(weights, wait_s)),
            cost_nanousd=amounts["run"] + amounts["start"],
            wait_s=round(wait_s, 3),
            reason=ruling.reason if ruling else _readiness(weights, wait_s),
            terms=" + ".join([f"{name} {n}" for name, n in amounts.items() if n]) or "free",
            ttft_s=round(wait_s + first_s, 3),
            is_simulated=pool.is_simulated,
        )

    def score_nanousd(self, weights: Weights, wait_s: float) -> float:
        """The whole sum, of a call that waits so long."""
        fresh: float = self.prompt_tokens[weights.model]
        output, prefix, cached = self.output_tokens, self.prefix_tokens, 0.0
        if prefix is not None and weights.name in prefix:
            fresh, cached = self.prompt(weights)
        score = weights.total.at(fresh, output, wait_s)
        if cached:
            score += cached * weights.terms.cached_nanousd
        if weights.lost_work is not None:
            score += weights.lost_work.at(fresh, output)
        if self.quality_deviations:
            score += self.moved_nanousd(weights)
        return score

    def amounts_nanousd(self, weights: Weights, wait_s: float) -> dict[str, float]:
        """The terms of the same."""
        fresh, cached = self.prompt(weights)
        call = fresh, self.output_tokens, wait_s
        exact = {name: line.at(*call) for name, line in weights.score._asdict().items()}
        exact["run"] += cached * weights.terms.cached_nanousd
        exact["quality"] += self.moved_nanousd(weights)
        if weights.lost_work is not None:
            exact["risk"] += weights.lost_work.at(fresh, self.output_tokens)
        return exact

    def prompt(self, weights: Weights) -> tuple[float, float]:
        """Tokens of the prompt that the pool computes anew, and those that it has already."""
        tokens = self.prompt_tokens[weights.model]
        if self.prefix_tokens is None:
            return tokens, 0
        known = min(tokens, self.prefix_tokens.get(weights.name, 0))
        cached = known * weights.terms.kept_share
        return tokens - cached, cached

    def moved_nanousd(self, weights: Weights) -> float:
        """What the prompt adds to the term of quality: less than nothing where it suits the
        variant, or its model where nobody judged the variant."""
        deviations = self.quality_deviations
        deviation = deviations.get(weights.variant, deviations.get(weights.model))
        if deviation is None or weights.log_odds is None:
            return 0.0
        return (weights.quality - sigmoid(weights.log_odds + deviation)) * weights.step_nanousd

    def times(self, weights: Weights) -> tuple[float, float, float]:
        """Seconds: until a replica is there, until one begins the call, and from then to the first
        token as it is expected."""
        terms = weights.terms
        begins_s = terms.wait_s
        if begins_s is None:
            begins_s = start_wait_s(weights.state, self.at_s)
        full_s = terms.first_fixed_s + terms.first_s_per_token * self.prompt_tokens[weights.model]
        first_s = full_s
        prefix = self.prefix_tokens
        if prefix is not None and weights.name in prefix:
            first_s -= terms.first_s_per_token * self.prompt(weights)[1]
        rounds = rounds_before(terms, self.in_flight.get(weights.name, 0))
        if not rounds:
            return begins_s, begins_s, first_s
        return begins_s, begins_s + rounds * (full_s + terms.step_s * self.output_tokens), first_s


class Candidates(Sequence[Candidate]):
    """The eligible ones, best first, and then those that were ruled out; each is made when it is
    read."""

    __slots__ = ("_made", "_reading", "_rows")

    def __init__(self, reading: Reading, rows: Sequence[Row | RuledOut]) -> None:
        self._reading = reading
        self._rows = rows
        self._made: dict[int, Candidate] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Candidate]: ...

    def __getitem__(self, at: int | slice) -> Candidate | Sequence[Candidate]:
        if isinstance(at, slice):
            return Candidates(self._reading, self._rows[at])
        if (made := self._made.get(at)) is not None:  # as most are that are read
            return made
        place = range(len(self._rows))[at]
        candidate = self._made.get(place)
        if candidate is None:
            candidate = self._made[place] = self._reading.candidate(self._rows[place])
        return candidate

    def __iter__(self) -> Iterator[Candidate]:
        return (self[place] for place in range(len(self._rows)))

    def compared(self) -> Iterator[Sequence[object]]:
        """Every figure that the order and the reasons stand on, as it was computed: a name, then
        numbers and words. Cheaper than the candidates themselves."""
        for row in self._rows:
            name = row.weights.terms.pool.name
            if isinstance(row, Row):
                yield name, row.shelf, row.measure, row.score_nanousd, row.tie, row.wait_s
            else:
                yield name, row.ruling.kind.value, row.ruling.pattern, row.ruling.values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))


def reason_of(candidates: Sequence[Candidate], chosen: Candidate) -> str:
    """Why a call went to one of them: `warm, the best of 4 candidates`."""
    number = len(candidates)
    for place, each in enumerate(candidates):
        if (each.pool, each.model) == (chosen.pool, chosen.model):
            if number == 1:
                return f"{chosen.reason}, the only candidate"
            rank = "the best" if place == 0 else f"number {place + 1}"
            return f"{chosen.reason}, {rank} of {number} candidates"
    return TOOK_OVER


def _readiness(weights: Weights, wait_s: float) -> str:
    if weights.terms.pool.is_external:
        return "external"
    return f"ready in about {wait_s:.1f} s" if wait_s else "warm"
