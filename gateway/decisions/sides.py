"""What became of the calls of a canary, beside those that it left to the rule. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from billing.queries import CanaryCall, CanaryRefusals
from billing.types import CallStatus
from billing.usage.percentile import MEDIAN, TAIL, percentile
from routing.policy.rules import SHARES, Canary, RoutingPolicy, Rule, StickyBy


@dataclass(frozen=True, slots=True)
class CanarySide:
    """Calls of one side. The price is what tenants paid for a call on average, the cost what it
    cost us; both are None where no call was admitted."""

    calls: int
    answered: int
    failed: int
    cancelled: int
    refused: int
    """Before or after they were admitted, but by no limit and not for money."""
    ttft_s_p50: float | None
    ttft_s_p95: float | None
    price_nanousd: int | None
    cogs_nanousd: int | None


@dataclass(frozen=True, slots=True)
class CanaryOutcome:
    rule: str
    share: float
    """Of the callers, from 0 to 1."""
    by: StickyBy
    canary: CanarySide
    stable: CanarySide


def canary_outcomes(
    policy: RoutingPolicy, calls: Sequence[CanaryCall], refusals: Iterable[CanaryRefusals]
) -> list[CanaryOutcome]:
    """Of every rule with a canary, in the order of rules."""
    refused = {(each.rule, each.is_canary): each.calls for each in refusals}
    return [
        _outcome(rule, rule.canary, calls, refused)
        for rule in (*policy.rules, policy.default)
        if rule.canary is not None
    ]


def _outcome(
    rule: Rule,
    canary: Canary,
    calls: Sequence[CanaryCall],
    refused: dict[tuple[str, bool], int],
) -> CanaryOutcome:
    canary_side, stable_side = [
        _side(
            [each for each in calls if (each.rule, each.is_canary) == (rule.id, is_canary)],
            refused.get((rule.id, is_canary), 0),
        )
        for is_canary in (True, False)
    ]
    return CanaryOutcome(rule.id, canary.share / SHARES, canary.by, canary_side, stable_side)


def _side(calls: Sequence[CanaryCall], refused: int) -> CanarySide:
    statuses = Counter(each.status for each in calls)
    ttfts_us = [
        each.first_token_us - each.admitted_us for each in calls if each.first_token_us is not None
    ]
    number = len(calls)
    return CanarySide(
        calls=number + refused,
        answered=statuses[CallStatus.ANSWERED],
        failed=statuses[CallStatus.FAILED],
        cancelled=statuses[CallStatus.CANCELLED],
        refused=statuses[CallStatus.REFUSED] + refused,
        ttft_s_p50=percentile(ttfts_us, MEDIAN) / 1e6 if ttfts_us else None,
        ttft_s_p95=percentile(ttfts_us, TAIL) / 1e6 if ttfts_us else None,
        price_nanousd=sum(e.amount_nanousd for e in calls) // number if number else None,
        cogs_nanousd=sum(e.cost_nanousd for e in calls) // number if number else None,
    )
