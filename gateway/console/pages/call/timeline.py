"""Where the time of one call went: from its admission to its last token, phase by phase. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from billing.usage.tables import UsageRecord
from gateway.call.wait import WaitEnd
from gateway.console.charts import shares
from gateway.console.formatting import duration, plural

WAIT, LOST, PREFILL, DECODE, TRIED = "wait", "lost", "prefill", "decode", "tried"
WAIT_ENDS: Mapping[WaitEnd | None, str] = MappingProxyType(
    {
        WaitEnd.PLACE: "It stayed, and the last time that pool had a place for it",
        WaitEnd.BETTER: "The last time {pool} was better than going on waiting",
        WaitEnd.BLOCKED: "The last time that pool could not start",
        WaitEnd.DEADLINE: "It stayed until its deadline passed",
        None: "Its caller left",
    }
)


@dataclass(frozen=True, slots=True)
class Phase:
    kind: str
    name: str
    length: str
    note: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Timeline:
    phases: tuple[Phase, ...]
    total: str
    booked_after: str


def timeline(used: UsageRecord, attempts: Sequence[dict[str, Any]]) -> Timeline:
    """`attempts` in the order they were made. The phases add up to the whole call."""
    stretches = [part for part in _stretches(used, attempts) if part[3] > 0]
    widths = shares([us for *_, us in stretches])
    return Timeline(
        phases=tuple(
            Phase(kind, name, duration(us), note, x, width)
            for (kind, name, note, us), (x, width) in zip(stretches, widths, strict=True)
        ),
        total=duration(used.ended_us - used.admitted_us),
        booked_after=duration(max(0, used.ingested_us - used.ended_us)),
    )


def wait_words(used: UsageRecord) -> str:
    """How often a call was decided anew while it waited, and what came of it. Empty for one that
    never waited."""
    if used.wait_pool is None:
        return ""
    times = plural(used.redecisions or 0, "time")
    end = WAIT_ENDS[WaitEnd(used.wait_end) if used.wait_end else None].format(
        pool=used.pool or "a pool"
    )
    return f"While it waited for {used.wait_pool} it was decided anew {times}. {end}."


def _stretches(
    used: UsageRecord, attempts: Sequence[dict[str, Any]]
) -> list[tuple[str, str, str, int]]:
    """(kind, name, note, us); clocks of one gateway, so later is never before earlier."""
    admitted, ended = used.admitted_us, max(used.admitted_us, used.ended_us)
    if not attempts:
        return [(WAIT, "Waiting", "no worker was tried", ended - admitted)]
    begun = _within(attempts[0]["started_us"], admitted, ended)
    last = _within(attempts[-1]["started_us"], begun, ended)
    lost = len(attempts) - 1
    found = [
        (WAIT, "Waiting", "for a replica with room, a cold start included", begun - admitted),
        (LOST, "Lost tries", f"{lost} before the one that answered", last - begun),
    ]
    if used.first_token_us is None:
        return [*found, (TRIED, "Trying", "no token came", ended - last)]
    first = _within(used.first_token_us, last, ended)
    return [
        *found,
        (PREFILL, "First token", "queue of the worker and reading the prompt", first - last),
        (DECODE, "Answer", _speed(used.output, ended - first), ended - first),
    ]


def _speed(tokens: int, us: int) -> str:
    if tokens < 2 or us <= 0:
        return plural(tokens, "token")
    return f"{tokens:,} tokens, {tokens * 1e6 / us:,.0f} a second"


def _within(at_us: int, low: int, high: int) -> int:
    return min(max(at_us, low), high)
