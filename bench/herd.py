"""Many callers of a cold pool at once: how often its count is decided, and how many calls are lost.

`python -m bench.herd [--callers 200] [--replicas 3] [--rounds 3] [--out bench/raw/herd.jsonl]`
starts Sluice with the example settings, and lets a pool of its own go cold. All callers come in one
instant through the gateway, each for a short answer. Beside them the fleet is read all the time.
One line a round, with the load of the machine: `targets` are the counts that were decided, one
after the other, `needed` is what the callers need of a pool that may have `--replicas`, and a call
is lost when it gets anything but its whole answer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.running import QUESTION, ROOT, Running, new_folder
from bench.serving import NAP, add_napping_pool

LOOK_S = 0.02
TOKENS = 8
CALL_S = 120.0


async def herd(sluice: Running, callers: int) -> dict[str, Any]:
    """One round. The pool is cold before it."""
    limits = httpx.Limits(max_connections=callers + 1, max_keepalive_connections=0)
    async with httpx.AsyncClient(timeout=CALL_S, limits=limits) as client:
        looks = [sluice.pool(NAP)]
        watch = asyncio.create_task(_watch(sluice, client, looks))
        begun = time.perf_counter()
        ends = await asyncio.gather(*(_call(sluice, client) for _ in range(callers)))
        took_s = time.perf_counter() - begun
        watch.cancel()
    first = [at_s - begun for status, at_s in ends if status == "200"]
    statuses = Counter(status for status, _ in ends)
    return {
        "callers": callers,
        "answered": statuses["200"],
        "lost": callers - statuses["200"],
        "statuses": dict(statuses),
        "first_answer_s": round(min(first), 2) if first else None,
        "last_answer_s": round(took_s, 2),
        **decided(looks),
    }


def decided(looks: list[dict[str, Any]]) -> dict[str, Any]:
    """What was decided, of the pool as it was published again and again."""
    targets = [looks[0]["target"]]
    for look in looks:
        if look["target"] != targets[-1]:
            targets.append(look["target"])
    rises = sum(after > before for before, after in pairwise(targets))
    terms = [look["terms"] for look in looks if look["target"] and look["terms"]]
    parts = ("for_first_token", "for_deadlines", "for_load", "for_forecast")
    return {
        "targets": targets,
        "decisions": rises,
        "needed_at_decision": max(terms[0][part] for part in parts) if terms else None,
        "waiting_at_decision": terms[0]["waiting"] if terms else None,
        "replicas": len({replica["id"] for look in looks for replica in look["replicas"]}),
    }


async def _watch(sluice: Running, client: httpx.AsyncClient, looks: list[dict[str, Any]]) -> None:
    headers = {"authorization": f"Bearer {sluice.ready['admin_key']}"}
    while True:
        fleet = (await client.get(f"{sluice.base_url}/admin/v1/fleet", headers=headers)).json()
        looks += [pool for pool in fleet["pools"] if pool["name"] == NAP]
        await asyncio.sleep(LOOK_S)


async def _call(sluice: Running, client: httpx.AsyncClient) -> tuple[str, float]:
    """The status, or the name of what went wrong, and when."""
    body = {"model": NAP, "messages": QUESTION, "max_tokens": TOKENS}
    try:
        answer = await client.post(
            f"{sluice.base_url}/v1/chat/completions", headers=sluice.tenant_headers, json=body
        )
        code = answer.json()["error"]["code"] if answer.is_error else ""
        return f"{answer.status_code} {code}".strip(), time.perf_counter()
    except httpx.HTTPError as wrong:
        return type(wrong).__name__, time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "herd.jsonl")
    parser.add_argument("--callers", type=int, default=200)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with Running(new_folder(), port=18_097) as sluice:
        add_napping_pool(sluice, max_replicas=options.replicas)
        for _ in range(options.rounds):
            while (pool := sluice.pool(NAP))["replicas"] or pool["target"]:
                time.sleep(0.2)
            figures = {"load": round(os.getloadavg()[0], 1)}
            figures |= asyncio.run(herd(sluice, options.callers))
            print(json.dumps(figures), flush=True)
            with open(options.out, "a") as lines:
                lines.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
