"""What an outage of every server costs, and how calls come back after it.

`python -m bench.outage [--rate 100] [--before 10] [--outage 60] [--after 30] [--how refuses resets]
[--out bench/raw/outage.jsonl]` starts one gateway with two pools of one model, a server of this
process behind each. Calls come at even distances, every second one streamed. In the middle both
servers fail: they answer 503 (`refuses`), or reset each connection (`resets`). One line for each
way: the share of calls answered before, in and after the outage, requests that came to the servers
for each call of the outage, seconds from its end until 99 in 100 calls are answered in every second
that follows, and the most requests that came in one second after it. A call belongs to the second
in which it was sent, and seconds of what follows begin with the end of the outage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.front.stack import API_KEY, ROOT, Stack
from bench.hedging import POOL, PRICE, SETTINGS, quantile
from gateway.upstream import fake

PORT = 18_233
FIRST_TOKEN_S = 0.08
SHARE = 0.99
WAYS = {
    "refuses": fake.refusal(503, {"message": "down"}),
    "resets": fake.Script([fake.Reset()], status=None),
}


@dataclass
class Servers:
    """Both of them: well but while there is an outage. `asked_s` are the times of all requests."""

    outage: fake.Script | None = None
    asked_s: list[float] = field(default_factory=list)

    def __call__(self, request: fake.Request) -> fake.Script:
        self.asked_s.append(time.perf_counter())
        if self.outage is not None:
            return self.outage
        if not request.body.get("stream"):
            whole = fake.plain_document(["word "], fake.usage_document(7, 1))
        else:
            words = [fake.plain_frame("word "), fake.plain_frame(finish="stop")]
            whole = fake.stream(*words, fake.plain_usage(7, 1), fake.DONE)
        return fake.Script([fake.Pause(FIRST_TOKEN_S), *whole.acts], whole.status, whole.headers)


@dataclass(frozen=True, slots=True)
class Call:
    sent_s: float
    took_s: float
    is_answered: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """`rate` is calls a second, the others seconds: of the run before, in and after the outage."""

    rate: int
    before: float
    outage: float
    after: float

    @property
    def calls(self) -> int:
        return round(self.rate * (self.before + self.outage + self.after))


async def call(client: httpx.AsyncClient, number: int, due_s: float) -> Call:
    await asyncio.sleep(due_s - time.perf_counter())
    body = {
        "model": "mock",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 16,
        "stream": number % 2 == 0,
    }
    sent_s = time.perf_counter()
    try:
        answer = await client.post("/v1/chat/completions", json=body)
        is_answered = answer.status_code == 200 and "word " in answer.text
    except httpx.HTTPError:
        is_answered = False
    return Call(sent_s, time.perf_counter() - sent_s, is_answered)


async def run(client: httpx.AsyncClient, servers: Servers, how: str, plan: Plan) -> dict[str, Any]:
    """Well, down and well again."""
    servers.asked_s.clear()
    began_s = time.perf_counter()
    due = (began_s + number / plan.rate for number in range(plan.calls))
    calls = [asyncio.create_task(call(client, n, due_s)) for n, due_s in enumerate(due)]
    await asyncio.sleep(began_s + plan.before - time.perf_counter())
    down_s, servers.outage = time.perf_counter(), WAYS[how]
    await asyncio.sleep(down_s + plan.outage - time.perf_counter())
    up_s, servers.outage = time.perf_counter(), None
    made = await asyncio.gather(*calls)
    return {"how": how, "rate": plan.rate, "outage_s": plan.outage} | figures(
        made, servers.asked_s, down_s, up_s
    )


def figures(
    calls: Sequence[Call], asked_s: Sequence[float], down_s: float, up_s: float
) -> dict[str, Any]:
    before = [each for each in calls if each.sent_s < down_s]
    during = [each for each in calls if down_s <= each.sent_s < up_s]
    after = [each for each in calls if each.sent_s >= up_s]
    asked = sum(down_s <= at_s < up_s for at_s in asked_s)
    asked_after = by_second([at_s - up_s for at_s in asked_s if at_s >= up_s])
    return {
        "calls": len(calls),
        "answered_before": share(before),
        "answered_during": share(during),
        "answered_after": share(after),
        "asked_a_call": round(asked / len(during), 4),
        "back_s": back_s(after, up_s),
        "asked_after_max": max(asked_after.values()),
        "asked_after": [asked_after[second] for second in range(10)],
        "answered_after_by_second": [
            share([each for each in after if int(each.sent_s - up_s) == second])
            for second in range(10)
        ],
        "refused_p99_s": quantile([each.took_s for each in during], 0.99),
        "load": round(os.getloadavg()[0], 1),
    }


def back_s(after: Sequence[Call], up_s: float) -> int | None:
    """Seconds until in each one that follows, of those that are whole, enough calls are answered.
    None: never."""
    seconds: dict[int, list[Call]] = defaultdict(list)
    for each in after:
        seconds[int(each.sent_s - up_s)].append(each)
    last = max(seconds) - 1
    bad = [second for second in range(last + 1) if share(seconds[second]) < SHARE]
    found = max(bad, default=-1) + 1
    return found if found <= last else None


def by_second(times_s: Sequence[float]) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for at_s in times_s:
        counts[int(at_s)] += 1
    return counts


def share(calls: Sequence[Call]) -> float:
    return round(sum(each.is_answered for each in calls) / max(1, len(calls)), 4)


async def measure(data: Path, ways: Sequence[str], plan: Plan) -> list[dict[str, Any]]:
    servers = Servers()
    async with fake.FakeUpstream(servers) as one, fake.FakeUpstream(servers) as two:
        pools = {"one": one.address, "two": two.address}
        settings = SETTINGS + "".join(
            [POOL.format(name=name, address=address) for name, address in pools.items()]
            + [PRICE.format(tier="default")]
        )
        stack = Stack(data, PORT, 0, settings=settings)
        await asyncio.to_thread(stack.__enter__)
        try:
            gateway = stack.gateway()
            await asyncio.to_thread(gateway.__enter__)
            try:
                return await _runs(stack, servers, ways, plan)
            finally:
                await asyncio.to_thread(gateway.__exit__, None, None, None)
        finally:
            await asyncio.to_thread(stack.__exit__)


async def _runs(
    stack: Stack, servers: Servers, ways: Sequence[str], plan: Plan
) -> list[dict[str, Any]]:
    async with httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{stack.port}",
        headers={"authorization": f"Bearer {API_KEY}"},
        limits=httpx.Limits(max_connections=2_000, max_keepalive_connections=200),
        timeout=60,
    ) as client:
        return [await run(client, servers, how, plan) for how in ways]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--before", type=float, default=10.0)
    parser.add_argument("--outage", type=float, default=60.0)
    parser.add_argument("--after", type=float, default=30.0)
    parser.add_argument("--how", nargs="+", choices=sorted(WAYS), default=sorted(WAYS))
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "outage.jsonl")
    options = parser.parse_args()
    plan = Plan(options.rate, options.before, options.outage, options.after)
    with tempfile.TemporaryDirectory() as folder:
        runs = asyncio.run(measure(Path(folder), options.how, plan))
    with open(options.out, "a") as lines:
        for each in runs:
            print(json.dumps(each), flush=True)
            lines.write(json.dumps(each) + "\n")


if __name__ == "__main__":
    main()
