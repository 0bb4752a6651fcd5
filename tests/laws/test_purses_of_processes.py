"""Law 8 for budgets over windows: whatever several gateway processes admit, top up and settle at
once on a real Redis, no purse is overspent, neither in a period nor in any rolling span."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from time import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.limits.holds import Holds
from billing.limits.types import HardBudget
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
        process.wait(timeout=60)


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


def test_g21_no_purse_is_overspent_by_several_gateway_processes(
    law_server: RedisServer, runner: asyncio.Runner, gateways: Gateways
) -> None:
    """LiteLLM#34732, #40095, new-api#6609: what is checked and what is taken are one step here.

    Many are refused, and most who were not would have been found refused for nothing."""
    reached: Counter[str] = Counter()

    @settings(max_examples=20, deadline=None)
    @given(story=stories())
    def law(story: Story) -> None:
        runner.run(tell(law_server, gateways, story, reached))

    law()
    assert reached["refused"] >= 50 and reached["would be found"] >= 50, reached


@pytest.mark.long
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(story=stories())
def test_g21_no_purse_is_overspent_by_several_gateway_processes_for_long(
    law_server: RedisServer, runner: asyncio.Runner, gateways: Gateways, story: Story
) -> None:
    runner.run(tell(law_server, gateways, story, Counter()))


async def tell(
    server: RedisServer, gateways: Gateways, story: Story, reached: Counter[str]
) -> None:
    redis = server.client()
    await redis.flushall()
    holds = Holds(redis, timeout_s=10)
    await open_shard(holds)
    seen = await asyncio.to_thread(play_everywhere, gateways, story)
    for told in story.purses:
        purse = HardBudget(**told)
        ours = [call for call in seen if purse.name in call.purses and not call.refused_by]
        assert spent_at_most(purse, ours)
        assert nobody_is_refused_for_nothing(purse, seen)
        reached["refused"] += sum(call.refused_by == purse.name for call in seen)
        reached["would be found"] += sum(
            not may_be_refused(purse, replace(call, refused_by=purse.name), seen) for call in ours
        )
        ((held, spent),) = await holds.purses(ORG, [purse], now_us=round(time() * 1e6))
        assert held == 0, "nothing is left held (LiteLLM#27639)"
        if not purse.width_us:
            assert spent == sum(call.amount for call in ours)
    assert await holds.open_count(SHARD) == 0
    await redis.aclose()


def spent_at_most(purse: HardBudget, calls: list[Spending]) -> bool:
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


def nobody_is_refused_for_nothing(purse: HardBudget, seen: list[Spending]) -> bool:
    return all(may_be_refused(purse, call, seen) for call in seen if call.refused_by == purse.name)


def may_be_refused(purse: HardBudget, call: Spending, seen: list[Spending]) -> bool:
    """It wanted more than was left of all that others can have held and spent in that moment; of a
    rolling span, what ended before it counts no more."""
    oldest_us = call.asked_us - purse.lasts_us - purse.width_us if purse.width_us else 0
    others = sum(
        other.most_at(call)
        for other in seen
        if purse.name in other.purses
        and not other.refused_by
        and (other.asked_us, other.told_us) != (call.asked_us, call.told_us)
        and other.done_us >= oldest_us
    )
    return call.hold + others > purse.amount_nanousd


def play_everywhere(gateways: Gateways, story: Story) -> list[Spending]:
    for number, process in enumerate(gateways):
        told: dict[str, Any] = story.__dict__ | {"name": str(number), "seed": story.seed + number}
        process.stdin.write(json.dumps(told) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    lines = [process.stdout.readline() for process in gateways]  # type: ignore[union-attr]
    return [Spending(**call) for line in lines for call in json.loads(line)]
