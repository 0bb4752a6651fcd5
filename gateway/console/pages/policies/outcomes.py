"""What canary and shadow of a version chose, as it is shown. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gateway.admin.outcomes.service import PolicyOutcomes
from gateway.console.calls import NOTHING
from gateway.console.formatting import (
    DisplayTime,
    Money,
    count,
    duration,
    instant,
    money,
    plural,
    short_id,
)
from gateway.decisions.shadows import ShadowedCall, ShadowSummary
from gateway.decisions.sides import CanaryOutcome, CanarySide
from routing.types import Candidate

HOURS = (1, 3, 6, 12, 24)
HOURS_USUAL = 6


@dataclass(frozen=True, slots=True)
class SideRow:
    name: str
    calls: str
    answered: str
    failed: str
    cancelled: str
    refused: str
    ttft: str
    ttft_tail: str
    price: Money | None
    cost: Money | None
    """Ours. Both are of a call on average; None where none was admitted."""


@dataclass(frozen=True, slots=True)
class CanaryView:
    rule: str
    share: str
    sides: tuple[SideRow, ...]
    """Empty where no call came."""


@dataclass(frozen=True, slots=True)
class ShadowExample:
    rid: str
    short: str
    at: DisplayTime
    went_to: str
    would_go_to: str
    """Empty where the shadow refuses the call."""
    refusal: str
    price: Money | None
    cost: Money | None


@dataclass(frozen=True, slots=True)
class ShadowView:
    rule: str
    decisions: str
    """Empty where none is on record."""
    differ: str
    refused: str
    price: Money
    cost: Money
    examples: tuple[ShadowExample, ...]


@dataclass(frozen=True, slots=True)
class OutcomesView:
    hours: int
    choices: tuple[int, ...]
    since: DisplayTime
    canaries: tuple[CanaryView, ...]
    shadows: tuple[ShadowView, ...]


def outcomes_view(outcomes: PolicyOutcomes, hours: int, *, now_us: int) -> OutcomesView:
    return OutcomesView(
        hours=hours,
        choices=HOURS,
        since=instant(outcomes.from_us, now_us),
        canaries=tuple([_canary(each) for each in outcomes.canaries]),
        shadows=tuple([_shadow(each, now_us) for each in outcomes.shadows]),
    )


def _canary(outcome: CanaryOutcome) -> CanaryView:
    sides = (("Canary", outcome.canary), ("Left to the rule", outcome.stable))
    has_calls = any(side.calls for _, side in sides)
    return CanaryView(
        rule=outcome.rule,
        share=f"{outcome.share * 100:g} % of {outcome.by.value}s",
        sides=tuple([_side(*each) for each in sides]) if has_calls else (),
    )


def _side(name: str, side: CanarySide) -> SideRow:
    return SideRow(
        name=name,
        calls=count(side.calls),
        answered=count(side.answered),
        failed=count(side.failed),
        cancelled=count(side.cancelled),
        refused=count(side.refused),
        ttft=_seconds(side.ttft_s_p50),
        ttft_tail=_seconds(side.ttft_s_p95),
        price=None if side.price_nanousd is None else money(side.price_nanousd),
        cost=None if side.cogs_nanousd is None else money(side.cogs_nanousd),
    )


def _shadow(summary: ShadowSummary, now_us: int) -> ShadowView:
    return ShadowView(
        rule=summary.rule,
        decisions=plural(summary.decisions, "decision") if summary.decisions else "",
        differ=count(summary.differ),
        refused=count(summary.refused),
        price=_difference(summary.price_nanousd),
        cost=_difference(summary.cogs_nanousd),
        examples=_examples(summary.examples, now_us),
    )


def _examples(calls: Sequence[ShadowedCall], now_us: int) -> tuple[ShadowExample, ...]:
    return tuple(
        [
            ShadowExample(
                rid=call.rid,
                short=short_id(call.rid),
                at=instant(call.at_us, now_us),
                went_to=_place(call.chosen),
                would_go_to="" if call.shadow is None else _place(call.shadow),
                refusal=call.refusal or "",
                price=None if call.price_nanousd is None else _difference(call.price_nanousd),
                cost=None if call.cogs_nanousd is None else _difference(call.cogs_nanousd),
            )
            for call in calls
        ]
    )


def _place(candidate: Candidate) -> str:
    return f"{candidate.pool}, {candidate.model}"


def _difference(nanousd: int) -> Money:
    amount = money(nanousd)
    return replace(amount, whole=f"+{amount.whole}") if nanousd > 0 else amount


def _seconds(given_s: float | None) -> str:
    return NOTHING if given_s is None else duration(round(given_s * 1e6))
