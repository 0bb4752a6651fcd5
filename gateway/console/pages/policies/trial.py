"""What a policy would do with one call: the answer of each clause, and every pool with its score.
Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from gateway.console.calls import reason_and_sum
from gateway.console.formatting import Money, capacity_words, duration, money
from gateway.decisions.explained import ExplainedDecision, TracedClause
from routing.types import Candidate


@dataclass(frozen=True, slots=True)
class TriedRule:
    """A rule that was asked, in its order."""

    name: str
    clauses: tuple[TracedClause, ...]
    is_taken: bool


@dataclass(frozen=True, slots=True)
class TriedPool:
    pool: str
    model: str
    capacity_class: str
    standing: str
    """`chosen`, `eligible` or `ruled out`."""
    score: Money
    cost: Money
    ttft: str
    reason: str


@dataclass(frozen=True, slots=True)
class TrialView:
    rule: str
    rules: tuple[TriedRule, ...]
    pools: tuple[TriedPool, ...]
    refusal: str


def trial_view(decision: ExplainedDecision) -> TrialView:
    taken = decision.rule or ""
    rules = [
        TriedRule(name, tuple(clauses), name == taken)
        for name, clauses in groupby(decision.clauses, key=lambda clause: clause.rule)
    ]
    if not any(rule.is_taken for rule in rules):
        rules.append(TriedRule(taken, (), is_taken=True))
    refusal = "" if decision.refusal is None else decision.refusal.message
    return TrialView(taken, tuple(rules), _pools(decision.candidates), refusal)


def _pools(candidates: Sequence[Candidate]) -> tuple[TriedPool, ...]:
    return tuple([_pool(each, is_first=place == 0) for place, each in enumerate(candidates)])


def _pool(candidate: Candidate, *, is_first: bool) -> TriedPool:
    standing = "ruled out"
    if candidate.eligible:
        standing = "chosen" if is_first else "eligible"
    ttft_s = candidate.ttft_s
    return TriedPool(
        pool=candidate.pool,
        model=candidate.model,
        capacity_class=capacity_words(candidate.capacity_class, candidate.is_simulated),
        standing=standing,
        score=money(candidate.score_nanousd),
        cost=money(candidate.cost_nanousd),
        ttft="" if ttft_s is None else duration(round(ttft_s * 1e6)),
        reason=reason_and_sum(candidate),
    )
