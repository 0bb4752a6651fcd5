"""The last calls as they are shown: one row each, with the decision in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from billing.queries import DecidedCall
from billing.usage.tables import UsageRecord
from gateway.console.formatting import DisplayTime, Money, count, duration, instant, money, short_id
from gateway.decisions.explained import ExplainedDecision
from routing.candidates import TOOK_OVER, reason_of
from routing.types import Candidate

NOTHING = "\N{EN DASH}"

Name = Callable[[str], str]
Explain = Callable[[DecidedCall], ExplainedDecision]


@dataclass(frozen=True, slots=True)
class DecisionWords:
    """Why a call went where it went: `warm, the best of 4 candidates`, and the sum that says so."""

    summary: str
    sum: str


@dataclass(frozen=True, slots=True)
class CallRow:
    rid: str
    short: str
    at: DisplayTime
    """Its end, which the rows are ordered by."""
    organization: str
    key: str
    model: str
    asked_for: str
    """The model that was asked for, where another one answered."""
    pool: str
    tier: str
    status: str
    problem: str
    decision: DecisionWords
    input: str
    cached_input: str
    output: str
    ttft: str
    duration: str
    cost: Money
    is_estimated: bool


def call_rows(
    calls: Sequence[DecidedCall], name: Name, explain: Explain, *, now_us: int
) -> tuple[CallRow, ...]:
    """`name` gives the name of an organization or key by its id."""
    return tuple(_row(call, name, explain(call), now_us) for call in calls)


def _row(call: DecidedCall, name: Name, decision: ExplainedDecision, now_us: int) -> CallRow:
    used = call.usage
    return CallRow(
        rid=used.rid,
        short=short_id(used.rid),
        at=instant(used.ended_us, now_us),
        organization=name(used.org),
        key=name(used.key),
        model=used.model,
        asked_for=used.model_requested if used.model_requested != used.model else "",
        pool=used.pool or NOTHING,
        tier=used.tier,
        status=used.status,
        problem=used.error_code or "",
        decision=decision_words(used, decision),
        input=count(used.input),
        cached_input=count(used.cached_input),
        output=count(used.output),
        ttft=ttft(used),
        duration=duration(used.ended_us - used.admitted_us),
        cost=money(used.amount_nanousd),
        is_estimated=used.source == "estimated",
    )


def ttft(used: UsageRecord) -> str:
    """Time to the first token, from admission."""
    if used.first_token_us is None:
        return NOTHING
    return duration(used.first_token_us - used.admitted_us)


def reason_and_sum(candidate: Candidate) -> str:
    """In words, and the sum behind them where it was weighed."""
    if not candidate.eligible:
        return candidate.reason
    return ": ".join(filter(None, (candidate.reason, candidate.terms)))


def decision_words(used: UsageRecord, decision: ExplainedDecision) -> DecisionWords:
    """Of the pool that served; for a call nobody served, of the best candidate."""
    if decision.refusal is not None:
        return DecisionWords(decision.refusal.message, "")
    candidates = decision.candidates
    if not candidates:
        return DecisionWords(used.reason or "no decision is on record", "")
    best = next((c for c in candidates if (c.pool, c.model) == (used.pool, used.model)), None)
    if best is None and not used.pool:
        best = candidates[0]
    if best is None:
        return DecisionWords(used.reason or TOOK_OVER, "")
    reason = used.reason or reason_of(candidates, best)
    return DecisionWords(reason, f"{best.terms} nano-USD" if best.terms else "")
