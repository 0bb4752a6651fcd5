"""The last calls as they are shown: one row each, with the decision in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from billing.queries import DecidedCall, UsageRecord
from gateway.console.words import Instant, Money, count, duration, instant, money, short_id

NOTHING = "\N{EN DASH}"

Name = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class CallRow:
    rid: str
    short: str
    at: Instant
    organization: str
    key: str
    model: str
    asked_for: str
    """The model that was asked for, where another one answered."""
    pool: str
    tier: str
    status: str
    problem: str
    decision: str
    input: str
    cached_input: str
    output: str
    ttft: str
    duration: str
    cost: Money
    is_estimated: bool


def call_rows(calls: Sequence[DecidedCall], name: Name, *, now_us: int) -> tuple[CallRow, ...]:
    """`name` gives the name of an organization or key by its id."""
    return tuple(_row(call, name, now_us) for call in calls)


def _row(call: DecidedCall, name: Name, now_us: int) -> CallRow:
    used = call.usage
    return CallRow(
        rid=used.rid,
        short=short_id(used.rid),
        at=instant(used.admitted_us, now_us),
        organization=name(used.org),
        key=name(used.key),
        model=used.model,
        asked_for=used.model_requested if used.model_requested != used.model else "",
        pool=used.pool or NOTHING,
        tier=used.tier,
        status=used.status,
        problem=used.error_code or "",
        decision=decision_words(used, call.decision),
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


def decision_words(used: UsageRecord, decision: dict[str, Any]) -> str:
    """Why the pool that served was chosen; for a call nobody served, the best candidate's."""
    candidates = decision.get("candidates") or []
    served = [c for c in candidates if (c.get("pool"), c.get("model")) == (used.pool, used.model)]
    if not candidates:
        return "no decision is on record"
    if not served and used.pool:
        return f"{used.pool} took over, though it was no candidate at first"
    chosen = (served or candidates)[0]
    others = len(candidates) - 1
    passed = "the only candidate" if others == 0 else f"before {others} other{'s' * (others > 1)}"
    return f"{chosen.get('reason', '')} ({passed})"
