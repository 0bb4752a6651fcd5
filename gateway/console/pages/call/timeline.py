"""Where the time of one call went: from its admission to its last token, phase by phase. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from billing.types import MOVED, AttemptKind
from billing.usage.tables import UsageRecord
from gateway.call.wait import WaitEnd
from gateway.console.charts import shares
from gateway.console.formatting import Money, duration, money, plural

WAIT, LOST, PREFILL, DECODE, TRIED = "wait", "lost", "prefill", "decode", "tried"
ATTEMPT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        AttemptKind.FIRST: "First",
        AttemptKind.RETRY: "Retry",
        AttemptKind.FALLBACK: "Fallback",
        AttemptKind.HEDGE: "Hedge",
        AttemptKind.RESUME: "Resume",
    }
)
VISIBLE_MIN = 0.6
"""Percent: an attempt is seen, however short it was."""
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
class AttemptLane:
    """An attempt over the length of the call, in percent of it."""

    kind: str
    name: str
    pool: str
    outcome: str
    length: str
    cost: Money
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Timeline:
    phases: tuple[Phase, ...]
    lanes: tuple[AttemptLane, ...]
    """In the order that the attempts began in; empty where one was enough."""
    total: str
    booked_after: str


def timeline(used: UsageRecord, attempts: Sequence[dict[str, Any]]) -> Timeline:
    """`attempts` in the order they were made. The phases add up to the whole call."""
    stretches = [part for part in _stretches(used, attempts) if part[3] > 0]
    widths = shares([us for *_, us in stretches])
    return Timeline(
        lanes=_lanes(used, attempts) if len(attempts) > 1 else (),
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
    spoke = _first_that_spoke(used, attempts)
    last = _within(attempts[spoke]["started_us"], begun, ended)
    found = [
        (WAIT, "Waiting", "for a replica with room, a cold start included", begun - admitted),
        (LOST, "Lost tries", f"{spoke} before the one that answered", last - begun),
    ]
    if used.first_token_us is None:
        return [*found, (TRIED, "Trying", "no token came", ended - last)]
    first = _within(used.first_token_us, last, ended)
    return [
        *found,
        (PREFILL, "First token", "queue of the worker and reading the prompt", first - last),
        (DECODE, "Answer", _answer_note(used, attempts, ended - first), ended - first),
    ]


def _first_that_spoke(used: UsageRecord, attempts: Sequence[dict[str, Any]]) -> int:
    """The place of the attempt that the first token is of: those before it were lost."""
    places = range(len(attempts))
    if used.first_token_us is None:
        return places[-1]
    spoke = [n for n in places if attempts[n]["outcome"] == MOVED or attempts[n].get("served")]
    return spoke[0] if spoke else places[-1]


def _answer_note(used: UsageRecord, attempts: Sequence[dict[str, Any]], us: int) -> str:
    moves = sum(each["outcome"] == MOVED for each in attempts)
    said = _speed(used.output, us)
    return f"{said}, {plural(moves, 'move')} included" if moves else said


def _lanes(used: UsageRecord, attempts: Sequence[dict[str, Any]]) -> tuple[AttemptLane, ...]:
    admitted, ended = used.admitted_us, max(used.admitted_us, used.ended_us)
    percent = 100 / max(1, ended - admitted)
    lanes = []
    for each in sorted(attempts, key=lambda each: each["started_us"]):
        begun = _within(each["started_us"], admitted, ended)
        over = _within(ended if each["ended_us"] is None else each["ended_us"], begun, ended)
        width = max(VISIBLE_MIN, (over - begun) * percent)
        lanes.append(
            AttemptLane(
                kind=each["kind"],
                name=ATTEMPT_NAMES.get(each["kind"], each["kind"]),
                pool=each["pool"],
                outcome=each["outcome"],
                length=duration(over - begun),
                cost=money(each["cost_nanousd"]),
                x=round(min((begun - admitted) * percent, 100 - width), 3),
                width=round(width, 3),
            )
        )
    return tuple(lanes)


def _speed(tokens: int, us: int) -> str:
    if tokens < 2 or us <= 0:
        return plural(tokens, "token")
    return f"{tokens:,} tokens, {tokens * 1e6 / us:,.0f} a second"


def _within(at_us: int, low: int, high: int) -> int:
    return min(max(at_us, low), high)
