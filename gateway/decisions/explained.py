"""A decision as somebody reads it: made again from its record, or as an older release wrote it.

Pure. Owns what explain, a replay, the API and the console say of a decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.decisions.narrowing import LeftOut, without
from gateway.decisions.record import DecisionRecord
from routing.decide import decide
from routing.filters import NOT_SET_UP
from routing.plans import Plans
from routing.policy.action import Matched
from routing.policy.attributes import Attributes
from routing.policy.narrow import narrowed
from routing.policy.rules import RoutingPolicy
from routing.types import Candidate, Decision, Refusal


class TracedClause(NamedTuple):
    """A clause of a rule that was asked, and its answer."""

    rule: str
    when: str
    holds: bool


@dataclass(frozen=True, slots=True)
class RefusalWords:
    """What a call was refused with. `needed` says what would have been needed; `retry_after_s` and
    `soonest_pool` when and where that may come about, None where it does not."""

    kind: str
    message: str
    retry_after_s: float | None = None
    soonest_pool: str | None = None


class ShadowOutcome(NamedTuple):
    """Where the rule's other action would have sent the call, or why nowhere."""

    pool: str | None = None
    model: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class ExplainedDecision:
    """`candidates` in order, the chosen one first. All of it is empty where nothing is kept."""

    rule: str | None = None
    policy_revision: int | None = None
    clauses: Sequence[TracedClause] = ()
    candidates: Sequence[Candidate] = ()
    refusal: RefusalWords | None = None
    shadow: ShadowOutcome | None = None
    """None where the rule has no shadow."""
    seed: int | None = None

    @property
    def clauses_of_rule(self) -> Sequence[TracedClause]:
        """Those of the rule itself. Clauses of other rules may name other tenants."""
        return [each for each in self.clauses if each.rule == self.rule]


NO_RECORD = ExplainedDecision()


def in_older_words(decision: Mapping[str, Any]) -> ExplainedDecision:
    """Of a row of an older release, which has the candidates."""
    return ExplainedDecision(
        rule=decision.get("rule"),
        policy_revision=decision.get("policy_revision"),
        candidates=[_candidate(row) for row in decision.get("candidates") or ()],
    )


def _candidate(row: Mapping[str, Any]) -> Candidate:
    """Older rows have the terms of an eligible candidate behind its reason."""
    candidate = Candidate(**{name: row[name] for name in Candidate._fields if name in row})
    if not candidate.eligible:
        return candidate
    reason, _, terms = candidate.reason.partition(": ")
    return candidate._replace(reason=reason, terms=candidate.terms or terms)


def made_again(
    record: DecisionRecord, policy: RoutingPolicy, plans: Plans | None = None
) -> Decision | Refusal:
    """The decision of a record under a policy. `plans` keep what repeats in many of them."""
    return decide(record.call, record.snapshot, _matched(record, policy), record.seed, plans)


def _matched(record: DecisionRecord, policy: RoutingPolicy) -> Matched:
    pools = [state.pool for state in record.snapshot.pools]
    provider_of = {pool.name: pool.provider for pool in pools if pool.provider}
    return narrowed(policy.match(record.attributes), record.wish, provider_of)


def explained(record: DecisionRecord, policy: RoutingPolicy | None) -> ExplainedDecision:
    """`policy` is the version that decided. Without it only the outcome is known."""
    outcome = record.outcome
    if policy is None:
        return ExplainedDecision(outcome.rule, outcome.policy_revision)
    clauses = clauses_of(policy, record.attributes)
    return of_decided(made_again(record, policy), clauses, record.left_out)


def clauses_of(policy: RoutingPolicy, attributes: Attributes) -> list[TracedClause]:
    """Of every rule that is asked, up to the one that is taken."""
    traces = policy.trace(attributes)
    return [TracedClause(each.rule, *clause) for each in traces for clause in each.clauses]


def of_decided(
    decided: Decision | Refusal, clauses: Sequence[TracedClause], left_out: LeftOut = ()
) -> ExplainedDecision:
    matched = decided.matched
    rule, revision = matched.rule, matched.policy_revision
    if isinstance(decided, Refusal):
        refusal = RefusalWords(
            decided.kind.value, decided.message, decided.retry_after_s, decided.soonest_pool
        )
        candidates = [*decided.candidates]
        return ExplainedDecision(rule, revision, clauses, candidates, refusal, None, decided.seed)
    ruled = without(decided, left_out)
    shadow = _shadow(decided.shadow)
    return ExplainedDecision(
        rule, revision, clauses, [*ruled.candidates], None, shadow, decided.seed
    )


def _shadow(decided: Decision | Refusal | None) -> ShadowOutcome | None:
    match decided:
        case None:
            return None
        case Refusal(kind=kind):
            return ShadowOutcome(refusal=kind.value)
        case _:
            return ShadowOutcome(decided.chosen.pool, decided.chosen.model)


@dataclass(frozen=True, slots=True)
class PricedCandidate:
    """A pool that was weighed, and what the call would be charged for on it; None where nobody
    knows any more."""

    weighed: Candidate
    price_nanousd: int | None

    @property
    def public_reason(self) -> str:
        """What is wrong with the settings of an external pool is no tenant's business."""
        reason = self.weighed.reason
        is_private = self.weighed.eligible or reason.startswith(NOT_SET_UP)
        return reason.partition(": ")[0] if is_private else reason
