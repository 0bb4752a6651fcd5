"""One call, from its admission to its transfers, as the Explain page shows it. Pure."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from billing.prices.book import Component, Prices, Unpriced
from billing.prices.rating import part_of, units_of
from billing.prices.tariff import OF_TOKENS, OF_UNITS, kind_of
from billing.queries import CallRecord
from billing.usage.tables import UsageRecord
from gateway.console.calls import (
    NOTHING,
    DecisionWords,
    Name,
    decision_words,
    reason_and_sum,
    ttft,
)
from gateway.console.formatting import (
    DisplayTime,
    Money,
    capacity_words,
    count,
    duration,
    instant,
    money,
)
from gateway.console.pages.call.timeline import ATTEMPT_NAMES, Timeline, timeline, wait_words
from gateway.console.pages.refusals.rows import RefusalView, refusal_view
from gateway.decisions.explained import ExplainedDecision, TracedClause
from routing.types import Candidate

USUAL = (Component.INPUT, Component.CACHED_INPUT, Component.OUTPUT)
NAMES = {
    Component.INPUT: "Input",
    Component.CACHED_INPUT: "Cached input",
    Component.CACHE_WRITE: "Cache write",
    Component.OUTPUT: "Output",
    Component.REASONING: "Reasoning",
    Component.REQUEST: "Request",
    Component.MINIMUM: "Up to the minimum",
    Component.GPU_MS: "GPU milliseconds",
    Component.AUDIO_INPUT: "Audio input",
    Component.IMAGE_INPUT: "Image input",
    Component.AUDIO_OUTPUT: "Audio output",
    Component.IMAGE_OUTPUT: "Image output",
    Component.SEARCH_UNIT: "Search units",
    Component.IMAGE: "Images",
    Component.SECOND: "Seconds",
    Component.CHARACTER: "Characters",
}
PER = {
    Component.REQUEST: "per million requests",
    Component.MINIMUM: "per million requests",
}


@dataclass(frozen=True, slots=True)
class CandidateRow:
    pool: str
    model: str
    capacity_class: str
    tier: str
    standing: str
    """`served`, `eligible` or `ruled out`."""
    score: Money
    cost: Money
    wait: str
    reason: str


@dataclass(frozen=True, slots=True)
class AttemptRow:
    n: int
    kind: str
    pool: str
    replica: str
    began: str
    lasted: str
    outcome: str
    fault: str
    """What the server said that refused it."""
    tokens: str
    cost: Money


@dataclass(frozen=True, slots=True)
class UsageRow:
    name: str
    units: str
    price: Money | None
    per: str
    amount: Money


@dataclass(frozen=True, slots=True)
class TransferRow:
    id: str
    kind: str
    debit: str
    credit: str
    amount: Money
    booked: DisplayTime


@dataclass(frozen=True, slots=True)
class ExplainView:
    rid: str
    status: str
    finish_reason: str
    problem: str
    admitted: DisplayTime
    organization: str
    project: str
    key: str
    model: str
    asked_for: str
    variant: str
    pool: str
    capacity_class: str
    tier: str
    gateway: str
    source: str
    decision: DecisionWords
    rule: str
    policy_revision: str
    side: str
    """Of the rule's canary; empty where it has none."""
    ttft: str
    duration: str
    cost: Money
    timeline: Timeline
    wait: str
    """How often it was decided anew while it waited for a place, and what came of it. Empty where
    it never waited."""
    refused: RefusalView | None
    """Of a call that was refused before anything was taken for it."""
    soonest: str
    """Where it would have been served first, if only time was lacking."""
    predicted_ttft: str
    predicted_cost: Money | None
    observed_cost: Money
    clauses: tuple[TracedClause, ...]
    candidates: tuple[CandidateRow, ...]
    attempts: tuple[AttemptRow, ...]
    usage: tuple[UsageRow, ...]
    price_version: str
    transfers: tuple[TransferRow, ...]


def explain_view(
    call: CallRecord,
    decision: ExplainedDecision,
    prices: Prices | Unpriced,
    name: Name,
    *,
    now_us: int,
) -> ExplainView:
    """`prices` are the rates of the version that was frozen for the call."""
    used = call.usage
    foreseen = _served(decision, used)
    return ExplainView(
        rid=used.rid,
        status=used.status,
        finish_reason=used.finish_reason or "",
        problem=used.error_code or "",
        admitted=instant(used.admitted_us, now_us),
        organization=name(used.org),
        project=name(used.project),
        key=name(used.key),
        model=used.model,
        asked_for=used.model_requested,
        variant=used.variant,
        pool=used.pool or NOTHING,
        capacity_class=capacity_words(used.capacity_class, used.is_simulated) or NOTHING,
        tier=used.tier,
        gateway=used.gateway,
        source=used.source,
        decision=decision_words(used, decision),
        rule=used.rule or decision.rule or NOTHING,
        policy_revision=str(used.policy_revision or decision.policy_revision or NOTHING),
        side={True: "canary", False: "not its canary", None: ""}[used.is_canary],
        ttft=ttft(used),
        duration=duration(used.ended_us - used.admitted_us),
        cost=money(used.amount_nanousd),
        timeline=timeline(used, call.attempts),
        wait=wait_words(used),
        refused=_refused(call, decision, name, now_us),
        soonest=(decision.refusal.soonest_pool or "") if decision.refusal else "",
        predicted_ttft=_seconds(None if foreseen is None else foreseen.ttft_s),
        predicted_cost=None if foreseen is None else money(foreseen.cost_nanousd),
        observed_cost=money(used.cost_nanousd),
        clauses=tuple(decision.clauses),
        candidates=tuple(_candidate(each, used) for each in decision.candidates),
        attempts=tuple(_attempt(row, used) for row in call.attempts),
        usage=_usage(used, prices),
        price_version=used.price_version,
        transfers=tuple(_transfer(row, now_us) for row in call.transfers),
    )


def _served(decision: ExplainedDecision, used: UsageRecord) -> Candidate | None:
    of_pool = [c for c in decision.candidates if (c.pool, c.model) == (used.pool, used.model)]
    return of_pool[0] if of_pool else None


def _refused(
    call: CallRecord, decision: ExplainedDecision, name: Name, now_us: int
) -> RefusalView | None:
    """In the words of the list. A call without a row of its own has them from its decision."""
    refusal, words = call.refusal, decision.refusal
    if refusal is None:
        return None
    if words is not None and not refusal.message:
        again_s = words.retry_after_s
        refusal = replace(refusal, message=words.message, retry_after_s=again_s)
    return refusal_view(refusal, name, now_us=now_us)


def _seconds(given_s: float | None) -> str:
    return NOTHING if given_s is None else duration(round(given_s * 1e6))


def _candidate(candidate: Candidate, used: UsageRecord) -> CandidateRow:
    served = (candidate.pool, candidate.model) == (used.pool, used.model)
    return CandidateRow(
        pool=candidate.pool,
        model=candidate.model,
        capacity_class=capacity_words(candidate.capacity_class, candidate.is_simulated),
        tier=candidate.tier,
        standing="served" if served else "eligible" if candidate.eligible else "ruled out",
        score=money(candidate.score_nanousd),
        cost=money(candidate.cost_nanousd),
        wait=duration(round(candidate.wait_s * 1e6)) if candidate.wait_s > 0 else NOTHING,
        reason=reason_and_sum(candidate),
    )


def _attempt(row: dict[str, Any], used: UsageRecord) -> AttemptRow:
    ended_us = row["ended_us"]
    return AttemptRow(
        n=row["n"],
        kind=ATTEMPT_NAMES.get(row["kind"], row["kind"]),
        pool=row["pool"],
        replica=row["replica"],
        began=duration(row["started_us"] - used.admitted_us),
        lasted=NOTHING if ended_us is None else duration(ended_us - row["started_us"]),
        outcome=row["outcome"],
        fault=" ".join(str(row[key]) for key in ("status", "detail") if row.get(key)),
        tokens=f"{row['input']:,} + {row['cached_input']:,} cached, {row['output']:,} out",
        cost=money(row["cost_nanousd"]),
    )


def _usage(used: UsageRecord, prices: Prices | Unpriced) -> tuple[UsageRow, ...]:
    """Token classes are disjoint, and their amounts add up to what the call cost; a class that
    few models have has a row where something was used or paid."""
    usage = used.usage
    known: dict[str, tuple[int, int | None]] = {}
    if isinstance(prices, Prices):
        known |= {name: (units, price) for name, units, price in units_of(usage, prices)}
    else:
        known |= {each: (getattr(usage, each, 1), None) for each in Component if not _is_unit(each)}
        known |= {usage.unit: (usage.units, None)} if usage.unit else {}
    rows = []
    for component, (units, price) in known.items():
        amount = getattr(used, part_of(component))
        by_tokens = component in OF_TOKENS
        if component in USUAL or amount or (units and (by_tokens or _is_unit(component))):
            per = "per million tokens" if by_tokens else PER.get(kind_of(component), "per million")
            name = _name(component)
            rows.append(UsageRow(name, count(units), _price(price), per, money(amount)))
    return tuple(rows)


def _is_unit(component: str) -> bool:
    return kind_of(component) in OF_UNITS


def _name(component: str) -> str:
    """With the size and the quality of images."""
    kind, _, rest = component.partition("/")
    return f"{NAMES[Component(kind)]} {rest.replace('/', ', ')}".strip()


def _price(nanousd: int | None) -> Money | None:
    return None if nanousd is None else money(nanousd)


def _transfer(row: dict[str, Any], now_us: int) -> TransferRow:
    return TransferRow(
        id=row["transfer_id"],
        kind=row["kind"],
        debit=row["debit_account"],
        credit=row["credit_account"],
        amount=money(row["amount_nanousd"]),
        booked=instant(row["booked_us"], now_us),
    )
