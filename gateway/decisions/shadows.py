"""Where the shadow of a rule would have sent calls, beside where they were sent. Pure.

A shadow is decided with its call. It is not stored: the record of a call gives it again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gateway.decisions.explained import made_again
from gateway.decisions.narrowing import without
from gateway.decisions.record import DecisionRecord
from routing.plans import Plans
from routing.policy.rules import RoutingPolicy
from routing.types import Candidate, Decision, Refusal

DECISIONS_MAX: Final = 1_000
EXAMPLES_MAX: Final = 20

PriceOf = Callable[[DecisionRecord, str], int | None]
"""What a call is expected to be charged on a model, in nano-USD; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class ShadowedCall:
    """One call. The differences are what it would be charged and cost us at the shadow's pool, less
    the same at its own, as both were expected. They are None where the shadow refuses the call."""

    rid: str
    rule: str
    at_us: int
    chosen: Candidate
    shadow: Candidate | None
    refusal: str | None
    price_nanousd: int | None
    cogs_nanousd: int | None

    @property
    def differs(self) -> bool:
        return self.shadow is None or _place(self.shadow) != _place(self.chosen)


@dataclass(frozen=True, slots=True)
class ShadowSummary:
    """Over the newest decisions of a rule. `refused` are among those that `differ`, and the
    differences are sums over the others of them."""

    rule: str
    decisions: int
    differ: int
    refused: int
    price_nanousd: int
    cogs_nanousd: int
    examples: Sequence[ShadowedCall]


def shadow_summaries(
    policy: RoutingPolicy, records: Iterable[DecisionRecord], price_of: PriceOf
) -> list[ShadowSummary]:
    """Of every rule with a shadow, in the order of rules. `records` come newest first;
    `DECISIONS_MAX` of those rules are decided again."""
    rules = [rule.id for rule in (*policy.rules, policy.default) if rule.shadow is not None]
    calls = list(islice(_shadowed(policy, records, price_of), DECISIONS_MAX)) if rules else []
    return [_outcome(rule, [call for call in calls if call.rule == rule]) for rule in rules]


def _outcome(rule: str, calls: Sequence[ShadowedCall]) -> ShadowSummary:
    elsewhere = [call for call in calls if call.differs]
    return ShadowSummary(
        rule=rule,
        decisions=len(calls),
        differ=len(elsewhere),
        refused=sum(call.shadow is None for call in elsewhere),
        price_nanousd=sum(call.price_nanousd or 0 for call in elsewhere),
        cogs_nanousd=sum(call.cogs_nanousd or 0 for call in elsewhere),
        examples=elsewhere[:EXAMPLES_MAX],
    )


def _shadowed(
    policy: RoutingPolicy, records: Iterable[DecisionRecord], price_of: PriceOf
) -> Iterator[ShadowedCall]:
    plans = Plans()
    shadowed = {rule.id for rule in (*policy.rules, policy.default) if rule.shadow is not None}
    for record in records:
        outcome = record.outcome
        if outcome.policy_revision != policy.revision or outcome.rule not in shadowed:
            continue
        decided = made_again(record, policy, plans)
        if isinstance(decided, Decision) and decided.shadow is not None:
            chosen = without(decided, record.left_out).chosen
            yield _compared(record, chosen, decided.shadow, price_of)


def _compared(
    record: DecisionRecord, chosen: Candidate, decided: Decision | Refusal, price_of: PriceOf
) -> ShadowedCall:
    shadow, refusal, price, cogs = None, None, None, None
    if isinstance(decided, Refusal):
        refusal = decided.message
    else:
        shadow = decided.chosen
        cogs = shadow.cost_nanousd - chosen.cost_nanousd
        at_shadow, here = price_of(record, shadow.model), price_of(record, chosen.model)
        if at_shadow is not None and here is not None:
            price = at_shadow - here
    return ShadowedCall(
        rid=record.call.request_id,
        rule=record.outcome.rule,
        at_us=round(record.snapshot.at_s * 1e6),
        chosen=chosen,
        shadow=shadow,
        refusal=refusal,
        price_nanousd=price,
        cogs_nanousd=cogs,
    )


def _place(candidate: Candidate) -> tuple[str, str]:
    return candidate.pool, candidate.model
