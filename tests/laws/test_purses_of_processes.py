"""Law 8 for budgets over windows: whatever several gateway processes admit, top up and settle at
once on a real Redis, no purse is overspent, neither in a period nor in any rolling span."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from time import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.limits.holds import Holds
from billing.limits.types import Purse
from tests.billing.limits.harness import ORG, SHARD, open_shard
from tests.laws.budget_process import Spending, Story
from tests.redis_server import RedisServer

PROCESSES = 3
ROOT = Path(__file__).parents[2]
HOLD_MAX = 1_000
SPAN_US = 500_000

Gateways = list[subprocess.Popen[str]]


@pytest.fixture(scope="module")
def gateways(law_server: RedisServer) -> Iterator[Gateways]:
    command = [sys.executable, "-m", "tests.laws.budget_process", str(law_server.socket)]
    started = [
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(PROCESSES)
    ]
    yield started
    for process in started:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(timeout=10)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """One to three purses, so tight that each is reached."""
    amounts = st.integers(0, 20 * HOLD_MAX)
    periods = [
        {"name": f"period-{n}", "amount_nanousd": amount}
        for n, amount in enumerate(draw(st.lists(amounts, max_size=2)))
    ]
    rolling = [
        {"name": f"span-{n}", "amount_nanousd": amount, "width_us": width, "lasts_us": SPAN_US}
        for n, (amount, width) in enumerate(
            draw(st.lists(st.tuples(amounts, st.sampled_from([10_000, 100_000])), max_size=2))
        )
    ]
    return Story(
        name="",
        seed=draw(st.integers(0, 10**6)),
        purses=periods + rolling or [{"name": "only", "amount_nanousd": draw(amounts)}],
        callers=draw(st.integers(2, 5)),
        calls=draw(st.integers(4, 20)),
        hold_max=HOLD_MAX,
        pause_s=draw(st.sampled_from([0.0, 0.004, 0.02])),
    )


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(story=stories())
def test_g21_no_purse_is_overspent_by_several_gateway_processes(
    law_server: RedisServer, runner: asyncio.Runner, gateways: Gateways, story: Story
) -> None:
    """LiteLLM#34732, #40095, new-api#6609: what is checked and what is taken are one step here."""
    runner.run(tell(law_server, gateways, story))


@pytest.mark.long
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(story=stories())
def test_g21_no_purse_is_overspent_by_several_gateway_processes_for_long(
    law_server: RedisServer, runner: asyncio.Runner, gateways: Gateways, story: Story
) -> None:
    runner.run(tell(law_server, gateways, story))


async def tell(server: RedisServer, gateways: Gateways, story: Story) -> None:
    redis = server.client()
    await redis.flushall()
    holds = Holds(redis, timeout_s=10)
    await open_shard(holds)
    seen = await asyncio.to_thread(play_everywhere, gateways, story)
    for told in story.purses:
        purse = Purse(**told)
        ours = [call for call in seen if purse.name in call.purses and not call.refused_by]
        assert spent_at_most(purse, ours)
        assert nobody_is_refused_for_nothing(purse, seen)
        ((held, spent),) = await holds.purses(ORG, [purse], now_us=round(time() * 1e6))
        assert held == 0, "nothing is left held (LiteLLM#27639)"
        if not purse.width_us:
            assert spent == sum(call.amount for call in ours)
    assert await holds.open_count(SHARD) == 0
    await redis.aclose()


def spent_at_most(purse: Purse, calls: list[Spending]) -> bool:
    """In the one period; or in every span of that length."""
    if not purse.width_us:
        return sum(call.amount for call in calls) <= purse.amount_nanousd
    by_end = sorted(calls, key=lambda call: call.ended_us)
    before = [0, *accumulate(call.amount for call in by_end)]
    first = 0
    for last, call in enumerate(by_end):
        while by_end[first].ended_us <= call.ended_us - purse.lasts_us:
            first += 1
        if before[last + 1] - before[first] > purse.amount_nanousd:
            return False
    return True


def nobody_is_refused_for_nothing(purse: Purse, seen: list[Spending]) -> bool:
    """Who was refused wanted more than was there at some time: all that was ever held or spent, and
    the hold."""
    refused = [call for call in seen if call.refused_by == purse.name]
    others = sum(
        max(call.amount, 4 * HOLD_MAX)
        for call in seen
        if purse.name in call.purses and not call.refused_by
    )
    return all(call.hold + others > purse.amount_nanousd for call in refused)


def play_everywhere(gateways: Gateways, story: Story) -> list[Spending]:
    for number, process in enumerate(gateways):
        told: dict[str, Any] = story.__dict__ | {"name": str(number), "seed": story.seed + number}
        process.stdin.write(json.dumps(told) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    lines = [process.stdout.readline() for process in gateways]  # type: ignore[union-attr]
    return [Spending(**call) for line in lines for call in json.loads(line)]
