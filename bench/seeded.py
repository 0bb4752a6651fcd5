"""What a seed costs: tokens per second of 32 callers with one and without, through the gateway.

Run as `python -m bench.seeded --key sk-sluice-... [--url http://127.0.0.1:8080] [--rounds 5]` while
a stack runs. Both ways take turns within each round, at temperature 1, and medians count.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from statistics import median
from typing import Any

import httpx2 as httpx

CALLERS, TOKENS = 32, 96
QUESTION = [{"role": "user", "content": "Tell me a story about a fox."}]
ASKED: dict[str, Any] = {
    "model": "sluice-small",
    "messages": QUESTION,
    "max_tokens": TOKENS,
    "temperature": 1.0,
    "ignore_eos": True,
}


async def tokens(client: httpx.AsyncClient, fields: dict[str, Any]) -> int:
    answer = await client.post("/v1/chat/completions", json=ASKED | fields)
    return int(answer.raise_for_status().json()["usage"]["completion_tokens"])


async def rate(client: httpx.AsyncClient, ways: list[dict[str, Any]]) -> float:
    """All start together."""
    began_s = time.perf_counter()
    counts = await asyncio.gather(*(tokens(client, fields) for fields in ways))
    return sum(counts) / (time.perf_counter() - began_s)


async def measured(url: str, key: str, rounds: int) -> dict[str, list[int]]:
    headers = {"authorization": f"Bearer {key}"}
    rates: dict[str, list[int]] = {"without a seed": [], "with a seed": []}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120.0) as client:
        await rate(client, [{}] * CALLERS)
        for _ in range(rounds):
            rates["without a seed"].append(round(await rate(client, [{}] * CALLERS)))
            seeds = [{"seed": seed} for seed in range(CALLERS)]
            rates["with a seed"].append(round(await rate(client, seeds)))
    return rates


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--url", default="http://127.0.0.1:8080")
    asked.add_argument("--key", required=True)
    asked.add_argument("--rounds", type=int, default=5)
    given, loaded = asked.parse_args(), os.getloadavg()
    rates = asyncio.run(measured(given.url, given.key, given.rounds))
    medians = {name: median(found) for name, found in rates.items()}
    print(json.dumps({"load": [loaded, os.getloadavg()], "tokens_per_s": rates, "median": medians}))


if __name__ == "__main__":
    main()
