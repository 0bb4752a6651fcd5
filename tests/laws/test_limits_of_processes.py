"""Law 8 over real processes: whatever several gateways admit, renew, refund and settle at once, no
rate exceeds burst + rate x time plus what was declared too low, no budget is overspent, and calls
at once are counted exactly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.limits.holds import Holds
from billing.limits.types import Money, ScopeLimits, Spent
from tests.billing.limits.harness import MONTH, ORG, SCOPES, SHARD, open_shard, scope_state
from tests.laws.limit_process import Seen, Story
from tests.redis_server import RedisServer

PROCESSES = 3
ROOT = Path(__file__).parents[2]
RATES = {"requests": "request_burst", "tokens": "token_burst"} | {
    f"{way}_tokens": f"{way}_token_burst" for way in ("input", "output")
}
TOKENS_MAX = 12

Gateways = list[subprocess.Popen[str]]


@pytest.fixture(scope="module")
def gateways(law_server: RedisServer) -> Iterator[Gateways]:
    command = [sys.executable, "-m", "tests.laws.limit_process", str(law_server.socket)]
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


USERS = [f"{SCOPES[2]}/user:{name}" for name in ("alice", "bob")]


@st.composite
def limit(draw: st.DrawFn, kinds: Sequence[str]) -> dict[str, Any]:
    """One limit that so few calls reach."""
    kind = draw(st.sampled_from(kinds))
    if kind == "concurrency":
        return {kind: draw(st.integers(0, 6))}
    if kind == "budget":
        window = draw(st.sampled_from(["total", "month"]))
        return {"budget_nanousd": draw(st.integers(0, 20_000)), "budget_window": window}
    if kind == "ceiling":
        return {"ceiling_nanousd": draw(st.integers(-1, 20_000))}
    least = 1 if kind == "requests" else 2 * TOKENS_MAX
    rate, burst = draw(st.sampled_from([60, 600, 6_000])), draw(st.integers(least, 20 * least))
    return {f"{kind}_per_minute": rate, RATES[kind]: burst}


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """One to three limits, so that each is reached."""
    narrow = [*RATES, "concurrency"]
    places = st.lists(st.sampled_from([*SCOPES, *USERS]), min_size=1, max_size=3)
    set_for: dict[str, dict[str, Any]] = {scope: {} for scope in SCOPES}
    for scope in draw(places):
        kinds = narrow if scope in USERS else [*narrow, "budget", "ceiling"]
        set_for[scope] = set_for.get(scope, {}) | draw(limit(kinds))
    return Story(
        name="",
        seed=draw(st.integers(0, 10**6)),
        scopes=[{"scope": scope} | set_for[scope] for scope in SCOPES],
        users=[
            {"scope": scope, "is_narrow": True} | set_for[scope]
            for scope in USERS
            if scope in set_for
        ],
        callers=draw(st.integers(2, 5)),
        calls=draw(st.integers(4, 12)),
        tokens_max=TOKENS_MAX,
        hold_max=1_000,
    )


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(story=stories())
def test_g26_limits_hold_over_several_gateway_processes(
    law_server: RedisServer, runner: asyncio.Runner, gateways: Gateways, story: Story
) -> None:
    runner.run(tell(law_server, gateways, story))


@pytest.mark.long
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(story=stories())
def test_g26_limits_hold_over_several_gateway_processes_for_long(
    law_server: RedisServer, runner: asyncio.Runner, gateways: Gateways, story: Story
) -> None:
    story.calls *= 4
    runner.run(tell(law_server, gateways, story))


async def tell(server: RedisServer, gateways: Gateways, story: Story) -> None:
    redis = server.client()
    await redis.flushall()
    holds = Holds(redis, timeout_s=10)
    await open_shard(holds)
    seen = await asyncio.to_thread(play_everywhere, gateways, story)
    admitted = [call for call in seen if call.refused is None]
    for scope in (*story.scopes, *story.users):
        ours = [call for call in admitted if scope["scope"] in call.scopes]
        assert_rates_hold(ScopeLimits(**scope), ours)
        refused = [call for call in seen if call.refused == [scope["scope"], "concurrency"]]
        assert_calls_at_once(scope.get("concurrency"), ours, refused)
        for bound in ("budget_nanousd", "ceiling_nanousd"):
            if ours and (most := scope.get(bound)) is not None:
                assert sum(call.amount for call in ours) <= most
    spent = sum(call.amount for call in admitted)
    for scope in SCOPES:
        months = {MONTH: spent} if spent else {}
        assert await holds.money(ORG, scope) == Money(0, Spent(spent, months))
        assert (await scope_state(redis, scope)).running == 0
    assert await holds.open_count(SHARD) == 0
    slots = [key for key in await redis.keys("*meter:*") if key.endswith(b"#concurrency")]
    assert slots == [], "no call at once is left"
    await redis.aclose()


def play_everywhere(gateways: Gateways, story: Story) -> list[Seen]:
    for number, process in enumerate(gateways):
        told = story.__dict__ | {"name": str(number), "seed": story.seed + number}
        process.stdin.write(json.dumps(told) + "\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
    lines = [process.stdout.readline() for process in gateways]  # type: ignore[union-attr]
    return [Seen(**call) for line in lines for call in json.loads(line)]


UNITS: dict[str, Callable[[tuple[int, int]], int]] = {
    "requests": lambda _: 1,
    "tokens": sum,
    "input_tokens": lambda used: used[0],
    "output_tokens": lambda used: used[1],
}


def assert_rates_hold(limits: ScopeLimits, admitted: Sequence[Seen]) -> None:
    """In every window: used, less what was declared too low, is at most burst + rate x time."""
    for dimension, burst_name in RATES.items():
        rate = getattr(limits, f"{dimension}_per_minute")
        if rate is None:
            continue
        burst, units = getattr(limits, burst_name), UNITS[dimension]
        calls = [call for call in admitted if not call.is_refund or dimension != "requests"]
        calls.sort(key=lambda call: call.asked_s)
        for first, begins in enumerate(calls):
            taken = 0
            for call in sorted(calls[first:], key=lambda call: call.told_s):
                taken += min(units(call.used), units(call.estimate))
                elapsed_s = call.told_s - begins.asked_s + 1e-3
                assert taken <= burst + rate * elapsed_s / 60, (limits.scope, dimension)


def assert_calls_at_once(
    limit: int | None, admitted: Sequence[Seen], refused: Sequence[Seen]
) -> None:
    """Never more than the limit surely run, and none is refused where less may have run."""
    if limit is None:
        return
    for call in admitted:
        sure = [o for o in admitted if o.told_s <= call.told_s < o.ending_s]
        assert len(sure) <= limit
    for call in refused:
        maybe = [o for o in admitted if o.asked_s <= call.told_s and o.ended_s >= call.asked_s]
        assert len(maybe) >= limit
