"""Law 10: no clock but Redis' own decides on rates, leases and slots, and none of a client on
anything. Gateways whose clocks are hours apart, in either direction, get the same answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from billing.limits.types import Refused, ScopeLimits
from tests.billing.calls import ADMITTED_US, checkpoint, opened_call, settled_call
from tests.billing.limits.harness import ORG, SCOPES, limited, open_shard, stopped_clock
from tests.redis_server import RedisServer

LEASE_S = 10.0
LIMITS: tuple[list[ScopeLimits], ...] = (
    limited(requests_per_minute=6, request_burst=1),
    limited(SCOPES[2], tokens_per_minute=600, token_burst=400),
    limited(SCOPES[1], concurrency=1),
)
HOUR_US = 3_600_000_000
FAR_OFF_US = st.integers(HOUR_US + 1, 6 * HOUR_US)
OFF_US = st.integers(-HOUR_US, HOUR_US) | FAR_OFF_US | FAR_OFF_US.map(lambda off_us: -off_us)
"""How far a gateway's clock is from Redis' own."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["admit", "admit", "renew", "settle"]),
        st.integers(0, 2),
        st.sampled_from([0, 0, 1_000_000, 9_000_000, 11_000_000]),
        OFF_US,
    ),
    min_size=3,
    max_size=14,
)
Steps = list[tuple[str, int, int, int]]


def test_a_gateway_whose_clock_is_wrong_is_answered_as_one_whose_clock_is_right(
    law_server: RedisServer, runner: asyncio.Runner
) -> None:
    reached: Counter[str] = Counter()

    @settings(max_examples=100, deadline=None)
    @given(steps=STEPS, limits=st.sampled_from(LIMITS))
    def law(steps: Steps, limits: list[ScopeLimits]) -> None:
        told = runner.run(answers(law_server, steps, limits, is_right=False))
        assert told == runner.run(answers(law_server, steps, limits, is_right=True))
        for each in told:
            reached[each.partition(" ")[0]] += 1
        reached["off"] += any(abs(off_us) > HOUR_US for *_, off_us in steps)

    law()
    wanted = ("admitted", "refused", "renewed", "lost", "settled", "off")
    assert all(reached[state] >= 5 for state in wanted), reached


async def answers(
    server: RedisServer, steps: Steps, limits: list[ScopeLimits], is_right: bool
) -> list[str]:
    """What Redis says of each step; its clock moves as the steps say, that of a gateway is off."""
    redis = server.client()
    await redis.flushall()
    holds, clock = await stopped_clock(redis)
    await open_shard(holds)
    found = []
    for kind, number, step_us, off_us in steps:
        await clock.advance(step_us)
        now_us = clock.now_us + (0 if is_right else off_us)
        call = opened_call(f"req_{number}", admitted_us=now_us)
        if kind == "admit":
            answer: Any = await holds.admit(call, limits, lease_s=LEASE_S)
            if isinstance(answer, Refused):
                waits = answer.retry_after_ms
                found.append(f"refused {answer.scope} {answer.dimension} {waits} {answer.rates}")
            else:
                found.append(f"admitted {answer.state} {answer.rates}")
        elif kind == "renew":
            seen = checkpoint(1, at_us=now_us)
            answer = await holds.renew(
                call.rid, ORG, lease_s=LEASE_S, topup_nanousd=0, checkpoint=seen
            )
            found.append(f"{type(answer).__name__.lower()} {answer}")
        else:
            ended = settled_call(call, admitted_us=ADMITTED_US, ended_us=now_us)
            found.append(f"settled {await holds.settle(ended)}")
    await redis.aclose()
    return found
