"""A mix in markets that give and take, in virtual time: what the calls need is nearly always there,
and costs far less than on demand."""

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from tests.workers.autoscaling.test_mixes import KNOBS, ON_DEMAND, RESERVED, SPOT
from workers.autoscaling.mixes import MixMemory, MixView, decide_mix

NEED = 5
START_S = 30
TICK_S = 5
DAYS = 1
UP_S, DOWN_S = 7_200, 1_800
"""How long a zone has capacity and has none, on average."""


@dataclass
class World:
    """Replicas by pool as the seconds at which they are ready. A zone without capacity loses its
    own at once, and launches none."""

    random: Random
    ready_s: dict[str, list[int]] = field(
        default_factory=lambda: {pool.name: [] for pool in (RESERVED, ON_DEMAND, *SPOT)}
    )
    trouble_ms: dict[str, int] = field(default_factory=dict)
    has_any: dict[str, bool] = field(default_factory=lambda: {pool.name: True for pool in SPOT})

    def step(self, at_s: int) -> None:
        for pool in SPOT:
            mean_s = UP_S if self.has_any[pool.name] else DOWN_S
            if self.random.random() < TICK_S / mean_s:
                self.has_any[pool.name] ^= True
            if not self.has_any[pool.name] and self.ready_s[pool.name]:
                self.ready_s[pool.name] = []
                self.trouble_ms[pool.name] = at_s * 1000

    def follow(self, name: str, share: int, at_s: int) -> None:
        there = sorted(self.ready_s[name])[:share]
        if share > len(there) and not self.has_any.get(name, True):
            self.trouble_ms[name] = at_s * 1000
            share = len(there)
        self.ready_s[name] = there + [at_s + START_S] * (share - len(there))

    def ready(self, name: str, at_s: int) -> int:
        return sum(ready_s <= at_s for ready_s in self.ready_s[name])


@pytest.mark.parametrize("seed", range(2))
def test_si_spot_market_with_an_on_demand_fallback_is_available(seed: int) -> None:
    world, memory = World(Random(seed)), MixMemory()
    pools = (RESERVED, ON_DEMAND, *SPOT)
    available = cost = losses = 0.0
    ticks = range(0, DAYS * 86_400, TICK_S)
    for at_s in ticks:
        world.step(at_s)
        seen = tuple(
            replace(
                pool,
                ready=world.ready(pool.name, at_s),
                target=len(world.ready_s[pool.name]),
                trouble_ms=world.trouble_ms.get(pool.name),
            )
            for pool in pools
        )
        losses += sum(world.trouble_ms.get(pool.name) == at_s * 1000 for pool in SPOT)
        view = MixView(at_ms=at_s * 1000, need=NEED, start_s=START_S, pools=seen)
        memory, shares = decide_mix("m", view, memory, KNOBS)
        available += min(NEED, sum(pool.ready for pool in seen)) / NEED
        for pool in pools:
            cost += pool.cost * len(world.ready_s[pool.name])
            world.follow(pool.name, shares[pool.name].share, at_s)
    assert losses > 10, "the market took something away"
    assert available / len(ticks) >= 0.99
    assert cost / (NEED * len(ticks)) < 0.7
