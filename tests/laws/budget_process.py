"""One gateway's calls under budgets in a process of its own: `python -m tests.laws.budget_process
SOCKET`. Reads a story as one line of JSON, plays it, and writes what it spent as another; until end
of file."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import asdict, dataclass
from time import time
from typing import Any

from redis.asyncio import Redis

from billing.limits.holds import Holds
from billing.limits.types import Admitted, HardBudget, Refused, Renewed, RenewRefused, SettleState
from billing.types import BudgetShare
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import ORG, unlimited


@dataclass
class Spending:
    """One call from its caller's side; `refused_by` is the purse that said no. Redis decided on it
    between `asked_us` and `told_us`, and gave back what it held before `done_us`."""

    purses: list[str]
    amount: int = 0
    ended_us: int = 0
    refused_by: str | None = None
    hold: int = 0
    asked_us: int = 0
    told_us: int = 0
    done_us: int = 0
    held_most: int = 0

    def most_at(self, other: Spending) -> int:
        """The most it can have had of a purse while Redis decided on another call."""
        if self.asked_us > other.told_us:
            return 0
        return self.amount if self.done_us < other.asked_us else max(self.amount, self.held_most)


@dataclass
class Story:
    name: str
    seed: int
    purses: list[dict[str, Any]]
    callers: int
    calls: int
    hold_max: int
    pause_s: float


async def play(holds: Holds, story: Story) -> list[Spending]:
    callers = (random.Random(f"{story.seed} {number}") for number in range(story.callers))
    seen = await asyncio.gather(*(_caller(holds, story, n, rng) for n, rng in enumerate(callers)))
    return [call for calls in seen for call in calls]


async def _caller(holds: Holds, story: Story, number: int, rng: random.Random) -> list[Spending]:
    found = []
    for n in range(story.calls):
        found.append(await _call(holds, story, f"req_{story.name}_{number}_{n}", rng))
        await asyncio.sleep(rng.uniform(0, story.pause_s))
    return found


async def _call(holds: Holds, story: Story, rid: str, rng: random.Random) -> Spending:
    purses = [HardBudget(**purse) for purse in story.purses if rng.random() < 0.8]
    names = [purse.name for purse in purses]
    hold = rng.randint(0, story.hold_max)
    shares = [BudgetShare(budget=name, is_hard=True) for name in names]
    opened = opened_call(rid, hold_nanousd=hold, budgets=shares)
    asked_us = _now_us()
    answer = await holds.admit(opened, unlimited(), lease_s=60, purses=purses)
    told_us = _now_us()
    if isinstance(answer, Refused):
        return Spending(names, 0, 0, answer.scope, hold, asked_us, told_us, told_us)
    assert isinstance(answer, Admitted)
    held = held_most = hold
    for _ in range(rng.randint(0, 3)):
        await asyncio.sleep(rng.uniform(0, story.pause_s))
        renewed = await holds.renew(
            rid,
            ORG,
            lease_s=60,
            topup_nanousd=rng.randint(0, story.hold_max),
            checkpoint=checkpoint(),
        )
        assert isinstance(renewed, Renewed | RenewRefused)
        held = held_most = renewed.held_nanousd
    amount = min(rng.randint(0, 2 * story.hold_max), held)
    ended_us = _now_us()
    settled = settled_call(opened, amount, ended_us=ended_us)
    assert await holds.settle(settled, refund=amount == 0) is SettleState.SETTLED
    return Spending(names, amount, ended_us, None, hold, asked_us, told_us, _now_us(), held_most)


def _now_us() -> int:
    return round(time() * 1e6)


async def serve(socket: str) -> None:
    redis = Redis(unix_socket_path=socket)
    holds = Holds(redis, timeout_s=10)
    while line := await asyncio.to_thread(sys.stdin.readline):
        seen = await play(holds, Story(**json.loads(line)))
        print(json.dumps([asdict(call) for call in seen]), flush=True)
    await redis.aclose()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
