"""What a soak is to be, from its seed alone: the tenants, every call of every caller, what the
server outside says to each try of it, and which faults come in which order.

Read by the clients, by the server outside and by the auditor, who need no word between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from tests.chaos.plan import MODELS, PlannedGrant

OVERHEAD_TOKENS = 8
"""A prompt for a server outside counts as its bytes and these (`gateway/catalog/tokenizers.py`)."""
PROMPT_STEP, PROMPTS = 32, 200
"""Prompts are so many bytes apart, so that what was charged tells which call it was for."""
FRAMES_MAX = 14
ROLLING_S = 60
SEED_OF_CALL = "soak"


@dataclass(frozen=True)
class Tenant:
    """`budget` is the body of one over a window, of `budget_scope`; `usd_per_s` makes money last
    for a part of the soak alone; `rate` is requests or tokens a minute, as `limits` has it."""

    name: str
    callers: int = 2
    pays_before: bool = False
    grants: tuple[PlannedGrant, ...] = ()
    may_owe: int | None = None
    hard: int | None = None
    window: Mapping[str, Any] = field(default_factory=dict)
    window_scope: str = "org"
    is_soft: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    limits_scope: str = "key"
    outage: Mapping[str, str] = field(default_factory=dict)
    freezes: bool = False


def tenants(seconds: float) -> tuple[Tenant, ...]:
    """Money for about half of the time."""
    half = round(seconds * 500_000)
    promotion = PlannedGrant("g-credits-gift", "credits", False, half // 4, 10, ("tale-large",))
    return (
        Tenant("plain", callers=3, outage={"mode": "local", "spend_cap_usd": "1"}),
        Tenant("prepaid", pays_before=True, grants=(grant("prepaid", half),)),
        Tenant("credits", grants=(grant("credits", half // 2), promotion), may_owe=half // 2),
        Tenant("hard", hard=half),
        Tenant("month", hard=half, window={"kind": "month"}),
        Tenant(
            "rolling",
            hard=ROLLING_S * 500_000,
            window={"kind": "rolling", "seconds": ROLLING_S},
            window_scope="project",
        ),
        Tenant("soft", hard=half // 2, window={"kind": "total"}, window_scope="key", is_soft=True),
        Tenant(
            "requests",
            callers=3,
            limits={"requests_per_minute": 60, "request_burst": 5},
            limits_scope="project",
        ),
        Tenant("tokens", limits={"tokens_per_minute": 120_000, "token_burst": 20_000}),
        Tenant(
            "concurrent",
            callers=5,
            limits={"concurrency": 2},
            limits_scope="org",
            outage={"mode": "deny"},
        ),
        Tenant("frozen", freezes=True),
    )


def grant(tenant: str, amount: int) -> PlannedGrant:
    return PlannedGrant(f"g-{tenant}-paid", tenant, True, amount, 50)


# --- calls ---------------------------------------------------------------------------------------


class Try(StrEnum):
    """What the server outside does to a try before it says a word."""

    REFUSED = "refused"
    BROKEN = "broken"
    RESET = "reset"
    NONSENSE = "nonsense"
    LATE = "late"


class Ending(StrEnum):
    """What is to become of the try that is answered, if nobody does it harm."""

    WHOLE = "whole"
    LEFT = "left"
    CUT = "cut"
    CHATTY = "chatty"


class Report(StrEnum):
    """What the server outside says that a whole answer used."""

    HONEST = "honest"
    OUTPUT_TOO_HIGH = "output too high"
    PROMPT_TOO_HIGH = "prompt too high"
    ALL_TOO_HIGH = "all too high"
    OUTPUT_TOO_LOW = "output too low"
    NONE = "none"


LIES = (Report.OUTPUT_TOO_HIGH, Report.PROMPT_TOO_HIGH, Report.ALL_TOO_HIGH)
Usage = tuple[int, int, int]
"""Fresh tokens of the prompt, cached ones, and tokens of output."""
NOTHING: Usage = (0, 0, 0)


@dataclass(frozen=True, slots=True)
class SoakCall:
    """`frames` are pieces of text; `most` is `max_tokens`; `pause_s` stands before each piece."""

    name: str
    tenant: str
    model: str
    stream: bool
    keyed: bool
    prompt_bytes: int
    frames: int
    most: int
    tries: tuple[Try, ...]
    ending: Ending
    ends_after: int
    report: Report
    cached: int
    pause_s: float
    gateway: int

    @property
    def prompt_most(self) -> int:
        """The most that its prompt may be charged for."""
        return self.prompt_bytes + OVERHEAD_TOKENS

    @property
    def prompt(self) -> str:
        return f"{self.name} ".ljust(self.prompt_bytes, "x")

    @property
    def reported(self) -> tuple[int, int] | None:
        """Prompt, cached ones included, and output, as the server outside says."""
        prompt, output = self.prompt_bytes, self.frames
        match self.report:
            case Report.NONE:
                return None if self.stream else (prompt, output)
            case Report.OUTPUT_TOO_HIGH:
                return prompt, 50 * self.most
            case Report.PROMPT_TOO_HIGH:
                return 20 * prompt, output
            case Report.ALL_TOO_HIGH:
                return 20 * prompt, 50 * self.most
            case Report.OUTPUT_TOO_LOW:
                return prompt, output // 2
        return prompt, output

    @property
    def owed(self) -> Usage:
        """What a whole answer is charged for: as reported, and never more than it was held for."""
        if self.ending is Ending.CHATTY and self.stream:
            return self.prompt_most, 0, self.most
        if self.reported is None:
            return self.owed_for(self.frames)
        prompt, output = self.reported
        fresh = min(prompt - self.cached, self.prompt_most - self.cached)
        return fresh, self.cached, min(output, self.most)

    def owed_for(self, frames: int) -> Usage:
        """A stream that ended early: its prompt as counted, and a token for each piece."""
        return (self.prompt_most, 0, min(frames, self.most)) if frames else NOTHING

    @property
    def may_be_owed(self) -> set[Usage]:
        """However it ended."""
        early = self.frames if self.stream else 0
        return {NOTHING, self.owed, *(self.owed_for(n) for n in range(early + 1))}


def call_of(seed: int, tenant: Tenant, caller: int, number: int) -> SoakCall:
    """The call of a name, which is drawn from the seed and the name."""
    return named_call(seed, f"{SEED_OF_CALL}-{tenant.name}-{tenant.callers}-{caller}-{number}")


def named_call(seed: int, name: str) -> SoakCall:
    _, tenant, callers, caller, number = name.split("-")
    rng = Random(f"{seed} {name}")
    place = (int(number) * int(callers) + int(caller)) % PROMPTS
    prompt_bytes = PROMPT_STEP * (place + 2)
    frames = rng.randint(1, FRAMES_MAX)
    ending = rng.choices(list(Ending), weights=(20, 3, 1, 1))[0]
    stream = rng.random() < 0.75
    is_chatty = ending is Ending.CHATTY and stream and frames > 1
    if ending is Ending.CHATTY and not is_chatty:
        ending = Ending.WHOLE
    return SoakCall(
        name=name,
        tenant=tenant,
        model=rng.choice(MODELS),
        stream=stream,
        keyed=rng.random() < 0.2,
        prompt_bytes=prompt_bytes,
        frames=frames,
        most=rng.randint(1, frames - 1) if is_chatty else frames + rng.randint(0, 20),
        tries=tuple(rng.choices(list(Try), (4, 4, 4, 2, 1), k=rng.choice((0,) * 9 + (1, 2)))),
        ending=ending,
        ends_after=rng.randint(1, frames),
        report=rng.choices(list(Report), weights=(6, 2, 2, 1, 1, 1))[0],
        cached=rng.randint(0, PROMPT_STEP) if rng.random() < 0.3 else 0,
        pause_s=rng.uniform(0, 0.06),
        gateway=rng.randint(0, 1),
    )


def place_of(used: Usage) -> int:
    """Bytes of the prompt that was charged for."""
    return (used[0] + used[1]) // PROMPT_STEP * PROMPT_STEP


# --- faults --------------------------------------------------------------------------------------

PARTS = {
    "kill_an_edge": {"edge"},
    "stop_an_edge": {"edge"},
    "fill_the_disk_of_an_edge": {"disk"},
    "kill_the_ledger": {"ledger"},
    "rival_ledger": {"ledger"},
    "wake_a_ledger_that_was_replaced": {"ledger"},
    "kill_redis": {"redis"},
    "wipe_redis": {"redis"},
    "empty_redis": {"redis"},
    "stop_redis": {"redis"},
    "starve_redis": {"redis"},
    "lock_sql": {"sql"},
    "take_sql_down": {"sql"},
    "fill_the_disk_of_sql": {"sql", "ledger"},
    "deliver_again": {"stream", "redis"},
    "poison": {"stream", "redis"},
    "jump_clocks": {"clock"},
    "cut_upstream": {"upstream"},
    "harm_upstream": {"upstream"},
}
"""What each fault takes for itself: two may come at once that share nothing."""


class Phase(StrEnum):
    """How thick faults come: one upon another, one every 20 s, or none."""

    STORM = "storm"
    STEADY = "every 20 s"
    QUIET = "quiet"


EVERY_S = 20.0
QUIET_S = 60.0


@dataclass(frozen=True, slots=True)
class Slot:
    """Faults that come at once, and what is waited for after them: `pause_s` from their end in a
    storm, from their beginning otherwise."""

    phase: Phase
    faults: tuple[str, ...]
    pause_s: float


def slots(seed: int) -> Iterator[Slot]:
    """Without end. In each phase every kind of fault comes once, some of them two at once."""
    rng = Random(f"faults {seed}")
    while True:
        for together in rounds(rng):
            yield Slot(Phase.STORM, together, rng.uniform(0.2, 1.0))
        for together in rounds(rng):
            yield Slot(Phase.STEADY, together, EVERY_S)
        yield Slot(Phase.QUIET, (), QUIET_S)


def rounds(rng: Random) -> list[tuple[str, ...]]:
    left = rng.sample(sorted(PARTS), len(PARTS))
    found = []
    while left:
        together = [left.pop()]
        other = next((name for name in left if not PARTS[name] & PARTS[together[0]]), None)
        if other is not None and rng.random() < 0.4:
            left.remove(other)
            together.append(other)
        found.append(tuple(together))
    return found
