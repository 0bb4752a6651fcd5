"""What a second attempt beside a slow one does to the time to the first token of priority calls.

`python -m bench.hedging [--calls 1500] [--stalled 0.02] [--out bench/raw/hedging.jsonl]` starts one
gateway with two pools of one model. Behind each is a server of this process whose first token takes
about 80 ms (log-normal, sigma 0.2), and 2 s longer for a share of the calls. Calls come at even
distances, streamed, under a policy without second attempts, and then under the one that Sluice
ships but for an order of the pools. Before both, calls that teach the gateway the servers' times.
One line each: quantiles of the first token as the caller sees it, and attempts for each call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any
from urllib.request import Request, urlopen

import httpx2 as httpx

from bench.front.stack import ADMIN_KEY, API_KEY, ROOT, Stack
from gateway.upstream import fake

PORT = 18_231
MEDIAN_S, SIGMA, STALL_S = 0.08, 0.2, 2.0
EVERY_S = 0.04
WARM_UP = 300
POLICY = """\
apiVersion: gateway/v1
kind: RoutingPolicy
rules: []
default: {{route: {{order: [pool:one], hedge: {{share: {share}}}}}}}
"""
SETTINGS = """
[[models]]
name = "mock"
context_tokens = 32768
max_output_tokens = 4096
size_rank = 1
quality = 0.5
"""
POOL = """
[[pools]]
name = "{name}"
model = "mock"
capacity_class = "external"
upstream_model = "mock"
base_url = "{address}/v1"
cost_input_usd_per_mtok = "0.10"
cost_output_usd_per_mtok = "0.20"
"""
PRICE = """
[[prices]]
model = "mock"
tier = "{tier}"
input_usd_per_mtok = "0.25"
cached_input_usd_per_mtok = "0.0625"
output_usd_per_mtok = "1"
"""


class Server:
    """Answers a few words; its first token is late as the module says."""

    def __init__(self, seed: int, stalled: float) -> None:
        self._rng = Random(seed)
        self._stalled = stalled

    def __call__(self, request: fake.Request) -> fake.Script:
        pause_s = MEDIAN_S * self._rng.lognormvariate(0, SIGMA)
        if self._rng.random() < self._stalled:
            pause_s += STALL_S
        if not request.body.get("stream"):
            pause_s = 0.0
        words = [fake.plain_frame("word "), fake.plain_frame(finish="stop")]
        whole = fake.stream(*words, fake.plain_usage(7, 1), fake.DONE)
        return fake.Script([fake.Pause(pause_s), *whole.acts], whole.status, whole.headers)


async def first_tokens(client: httpx.AsyncClient, calls: int) -> list[float]:
    """Seconds to the first token of each call, in the order that they came."""
    return list(await asyncio.gather(*(_first_token(client, n * EVERY_S) for n in range(calls))))


async def _first_token(client: httpx.AsyncClient, after_s: float) -> float:
    await asyncio.sleep(after_s)
    body = {
        "model": "mock",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 16,
        "stream": True,
        "service_tier": "priority",
    }
    begun, first_s = time.perf_counter(), None
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if first_s is None and '"word ' in line:
                first_s = time.perf_counter() - begun
    assert first_s is not None, "every call is answered"
    return first_s


def attempts(stack: Stack) -> dict[str, float]:
    """How many attempts of each kind ended so far."""
    key = {"authorization": f"Bearer {ADMIN_KEY}"}
    with urlopen(Request(f"http://127.0.0.1:{stack.port}/metrics", headers=key)) as answer:
        text = answer.read().decode()
    counts: dict[str, float] = {}
    for kind, count in re.findall(r'^sluice_attempts_total{kind="(\w+)".*} (\S+)$', text, re.M):
        counts[kind] = counts.get(kind, 0.0) + float(count)
    return counts


def put_policy(stack: Stack, share: float) -> None:
    made = stack.call(
        "/admin/v1/policies",
        ADMIN_KEY,
        {"document": POLICY.format(share=share), "comment": f"share {share}"},
    )
    stack.call(f"/admin/v1/policies/{made['version']}/activate", ADMIN_KEY, {"comment": "bench"})
    time.sleep(6)


def quantile(values: list[float], share: float) -> float:
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 3)


async def measured(stack: Stack, client: httpx.AsyncClient, calls: int, share: float) -> Any:
    await asyncio.to_thread(put_policy, stack, share)
    before = await asyncio.to_thread(attempts, stack)
    times = await first_tokens(client, calls)
    await asyncio.sleep(1)
    after = await asyncio.to_thread(attempts, stack)
    made = {kind: after[kind] - before.get(kind, 0.0) for kind in after}
    return {
        "share": share,
        "calls": calls,
        "p50_s": quantile(times, 0.5),
        "p95_s": quantile(times, 0.95),
        "p99_s": quantile(times, 0.99),
        "max_s": quantile(times, 1.0),
        "attempts_a_call": round(sum(made.values()) / calls, 4),
        "attempts": made,
        "load": round(os.getloadavg()[0], 1),
    }


async def compare(data: Path, calls: int, stalled: float) -> list[Any]:
    """Without second attempts, and with them."""
    async with (
        fake.FakeUpstream(Server(1, stalled)) as one,
        fake.FakeUpstream(Server(2, stalled)) as two,
    ):
        pools = {"one": one.address, "two": two.address}
        settings = SETTINGS + "".join(
            [POOL.format(name=name, address=address) for name, address in pools.items()]
            + [PRICE.format(tier=tier) for tier in ("default", "priority")]
        )
        stack = Stack(data, PORT, 0, settings=settings)
        await asyncio.to_thread(stack.__enter__)
        try:
            gateway = stack.gateway()
            await asyncio.to_thread(gateway.__enter__)
            try:
                return [
                    await _round(stack, calls, share, is_first=n == 0)
                    for n, share in enumerate((0.0, 0.03))
                ]
            finally:
                await asyncio.to_thread(gateway.__exit__, None, None, None)
        finally:
            await asyncio.to_thread(stack.__exit__)


async def _round(stack: Stack, calls: int, share: float, *, is_first: bool) -> Any:
    limits = httpx.Limits(max_connections=500, max_keepalive_connections=100)
    headers = {"authorization": f"Bearer {API_KEY}"}
    base_url = f"http://127.0.0.1:{stack.port}"
    async with httpx.AsyncClient(
        base_url=base_url, headers=headers, limits=limits, timeout=60
    ) as client:
        if is_first:
            await first_tokens(client, WARM_UP)
        return await measured(stack, client, calls, share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "hedging.jsonl")
    parser.add_argument("--calls", type=int, default=1500)
    parser.add_argument("--stalled", type=float, default=0.02)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rounds = asyncio.run(compare(Path(folder), options.calls, options.stalled))
    with open(options.out, "a") as lines:
        for figures in rounds:
            print(json.dumps(figures), flush=True)
            lines.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
