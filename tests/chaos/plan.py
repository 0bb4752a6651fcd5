"""What every call of a run is to be, from its seed and its number alone.

Read by the process that makes the calls and by the auditor, who need no word between them. Prices
are plain numbers here; the product is told of them, and never asked what something costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

MODELS = ("tale-large", "tale-small")
TIERS = ("default", "priority")
PRICE_VERSION = "pv_1"
PRICES = {
    ("tale-large", "input"): 1_333_333_333,
    ("tale-large", "cached_input"): 133_333_337,
    ("tale-large", "output"): 5_000_000_001,
    ("tale-large", "request"): 7_500_000_000,
    ("tale-small", "input"): 250_000_001,
    ("tale-small", "cached_input"): 25_000_000,
    ("tale-small", "output"): 999_999_999,
    ("tale-small", "request"): 0,
}
"""Nano-USD per million; the same for both tiers."""
ORGS = ("org_ada", "org_bob", "org_cyd", "org_dee", "org_eve")
POOR = "org_dee"
"""The one whose key has a budget, and whose calls are refused while the limiter is away."""
POOR_BUDGET_NANOUSD = 40_000_000
PREPAID = "org_eve"
"""The one that may owe nothing: what its credits do not pay is refused."""
CREDITED = "org_bob"
"""Has credits, and may owe what they do not pay."""


@dataclass(frozen=True, slots=True)
class PlannedGrant:
    name: str
    org: str
    paid: bool
    amount: int
    priority: int
    models: tuple[str, ...] = ()


GRANTS = (
    PlannedGrant("g-eve-paid", PREPAID, True, 25_000_000, 50),
    PlannedGrant("g-eve-gift", PREPAID, False, 5_000_000, 10),
    PlannedGrant("g-bob-paid", CREDITED, True, 8_000_000, 50),
    PlannedGrant("g-bob-gift", CREDITED, False, 4_000_000, 10, ("tale-large",)),
)
CHECKPOINT_EVERY = 4
"""Frames between two checkpoints that a call makes whatever the clock says."""


class Ending(StrEnum):
    """What is to become of a call if nobody does it harm."""

    WHOLE = "whole"
    LEFT = "left"
    FAILED = "failed"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """`frames` are the output tokens of each frame; `wasted` those of tries that failed before."""

    rid: str
    org: str
    model: str
    tier: str
    stream: bool
    prompt: int
    cached: int
    frames: tuple[int, ...]
    wasted: tuple[int, ...]
    ending: Ending
    leaves_after: int
    pause_s: float

    @property
    def output(self) -> int:
        return sum(self.frames)

    def output_after(self, frames: int) -> int:
        return sum(self.frames[:frames])


def planned(seed: int, rid: str, *, pause_s: float = 0.02) -> PlannedCall:
    """The call of an id, which is drawn from the seed and the id."""
    rng = Random(f"{seed} {rid}")
    prompt = rng.randint(1, 900)
    frames = tuple(rng.randint(1, 40) for _ in range(rng.randint(1, 14)))
    return PlannedCall(
        rid=rid,
        org=rng.choice(ORGS),
        model=rng.choice(MODELS),
        tier=rng.choice(TIERS),
        stream=rng.random() < 0.8,
        prompt=prompt,
        cached=rng.randint(0, prompt) if rng.random() < 0.3 else 0,
        frames=frames,
        wasted=tuple(rng.randint(0, 50) for _ in range(rng.choice((0, 0, 0, 1, 2)))),
        ending=rng.choices(list(Ending), weights=(12, 3, 2, 1))[0],
        leaves_after=rng.randint(0, len(frames)),
        pause_s=rng.uniform(0, pause_s),
    )
