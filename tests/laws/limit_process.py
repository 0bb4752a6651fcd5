"""One gateway's calls in a process of its own: `python -m tests.laws.limit_process SOCKET`.

Reads a story as one line of JSON, plays it, and writes what it saw as another; until end of file.
Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import asdict, dataclass
from time import monotonic
from typing import Any

from redis.asyncio import Redis

from billing.limits.holds import Holds
from billing.limits.types import Admitted, Refused, Renewed, RenewRefused, ScopeLimits, SettleState
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import ORG


@dataclass
class Seen:
    """One call from its caller's side. `asked_s` to `told_s` it was admitted or refused, `ending_s`
    to `ended_s` it was settled."""

    rid: str
    scopes: list[str]
    asked_s: float
    told_s: float
    refused: list[str] | None
    estimate: tuple[int, int]
    used: tuple[int, int] = (0, 0)
    amount: int = 0
    is_refund: bool = False
    ending_s: float = 0.0
    ended_s: float = 0.0


@dataclass
class Story:
    name: str
    seed: int
    scopes: list[dict[str, Any]]
    users: list[dict[str, Any]]
    callers: int
    calls: int
    tokens_max: int
    hold_max: int


async def play(holds: Holds, story: Story) -> list[Seen]:
    rng = random.Random(story.seed)
    callers = [random.Random(rng.random()) for _ in range(story.callers)]
    seen = await asyncio.gather(*(_caller(holds, story, n, own) for n, own in enumerate(callers)))
    return [call for calls in seen for call in calls]


async def _caller(holds: Holds, story: Story, number: int, rng: random.Random) -> list[Seen]:
    found = []
    for n in range(story.calls):
        found.append(await _call(holds, story, f"req_{story.name}_{number}_{n}", rng))
        await asyncio.sleep(rng.uniform(0, 0.004))
    return found


async def _call(holds: Holds, story: Story, rid: str, rng: random.Random) -> Seen:
    user = rng.choice(story.users) if story.users else None
    scopes = [ScopeLimits(**limits) for limits in (*story.scopes, *([user] if user else []))]
    names = [limits.scope for limits in scopes]
    estimate = rng.randint(0, story.tokens_max), rng.randint(0, story.tokens_max)
    hold = rng.randint(0, story.hold_max)
    opened = opened_call(
        rid, hold_nanousd=hold, prompt_tokens=estimate[0], tokens_estimate=sum(estimate)
    )
    asked_s = monotonic()
    answer = await holds.admit(opened, scopes, lease_s=60)
    told_s = monotonic()
    if isinstance(answer, Refused):
        return Seen(rid, names, asked_s, told_s, [answer.scope, answer.dimension], estimate)
    assert isinstance(answer, Admitted) and answer.state == "new"
    seen = Seen(rid, names, asked_s, told_s, None, estimate)
    await asyncio.sleep(rng.uniform(0, 0.01))
    renewed = await holds.renew(
        rid, ORG, lease_s=60, topup_nanousd=rng.randint(0, story.hold_max), checkpoint=checkpoint()
    )
    assert isinstance(renewed, Renewed | RenewRefused)
    seen.is_refund = rng.random() < 0.1
    if not seen.is_refund:
        seen.used = rng.randint(0, story.tokens_max), rng.randint(0, story.tokens_max)
        seen.amount = min(rng.randint(0, 2 * story.hold_max), renewed.held_nanousd)
    seen.ending_s = monotonic()
    ended = settled_call(opened, seen.amount, input=seen.used[0], output=seen.used[1])
    assert await holds.settle(ended, refund=seen.is_refund) is SettleState.SETTLED
    seen.ended_s = monotonic()
    assert await holds.settle(ended, refund=seen.is_refund) is SettleState.ALREADY
    return seen


async def serve(socket: str) -> None:
    redis = Redis(unix_socket_path=socket)
    holds = Holds(redis, timeout_s=10)
    while line := await asyncio.to_thread(sys.stdin.readline):
        seen = await play(holds, Story(**json.loads(line)))
        print(json.dumps([asdict(call) for call in seen]), flush=True)
    await redis.aclose()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
