"""Records an hour of the real stack, for what replays it: `python -m bench.hour TRACE`.

TRACE is the Azure LLM conversation file of 2023 (`TIMESTAMP,ContextTokens,GeneratedTokens`). One of
`--thin` calls is sent, at its own time, as a stream, with a prompt of as many tokens (at most
PROMPT_MAX) and `max_tokens` of the answer's. Tiers are assigned: two of ten flex, one priority. The
model runs on the engine `simulated`: a reserved pool of one or two replicas, and a spot pool that
sleeps. `--out FILE.gz` has lines of JSON, in this order:

- `head`: the configuration, the source with its SHA-256, and the load average of the machine;
- `fleet`: what changed in a pool: target, reason, states of replicas, callers who wait;
- `call`: arrival in seconds since the beginning, tier, tokens, status, seconds to the first token
  and to the end, pool, rule, what it waited for, and what it cost.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gzip
import hashlib
import json
import os
import random
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.running import ROOT, Running, free_port, new_folder
from tests.simulated_model import simulated_model

MODEL = "played"
PROMPT_MAX = 8_000
LOOK_S = 0.5
BOOKED_S = 10.0
TIERS = ("flex", "default", "default", "default", "priority", "flex", *("default",) * 4)
CONFIG = f"""{simulated_model(MODEL, context_tokens=16384, max_output_tokens=4096, size_rank=3)}
[[pools]]
name = "{MODEL}-reserved"
model = "{MODEL}"
variant = "fp16"
engine = "simulated"
hardware = "h100"
min_replicas = 1
initial_replicas = 1
max_replicas = 2
max_ongoing = 2
idle_s = 60.0
num_cpus = 0.1
cost_usd_per_s = "0.0007"

[[pools]]
name = "{MODEL}-spot"
model = "{MODEL}"
variant = "fp16"
capacity_class = "spot"
engine = "simulated"
hardware = "h100"
max_replicas = 2
max_ongoing = 2
idle_s = 60.0
num_cpus = 0.1
cost_usd_per_s = "0.0003"

[[prices]]
model = "{MODEL}"
input_usd_per_mtok = "0.2"
output_usd_per_mtok = "0.6"

[[prices]]
model = "{MODEL}"
tier = "flex"
input_usd_per_mtok = "0.1"
output_usd_per_mtok = "0.3"

[[prices]]
model = "{MODEL}"
tier = "priority"
input_usd_per_mtok = "0.4"
output_usd_per_mtok = "1.2"
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--thin", type=int, default=6, help="one of so many calls is sent")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "hour.jsonl.gz")
    args = parser.parse_args()
    calls = calls_of(args.trace, args.thin, args.minutes * 60)
    folder = new_folder()
    config = folder / "hour.toml"
    text = (ROOT / "sluice.toml").read_text().replace('"models/', f'"{ROOT}/models/')
    config.write_text(text.replace("initial_replicas = 1 ", "initial_replicas = 0 ") + CONFIG)
    head = {
        "kind": "head",
        "source": "Azure LLM inference trace 2023, conversation (CC-BY-4.0; Patel et al. 2024)",
        "sha256": hashlib.sha256(args.trace.read_bytes()).hexdigest(),
        "thin": args.thin,
        "config": CONFIG.replace(str(ROOT), "."),
        "load_average": os.getloadavg(),
    }
    with Running(folder, free_port(), config) as sluice:
        lines = asyncio.run(_play(sluice, calls))
    with gzip.open(args.out, "wt") as out:
        out.writelines(json.dumps(line) + "\n" for line in [head, *lines])
    print(json.dumps(_summary(lines)))


def calls_of(path: Path, thin: int, until_s: float) -> list[dict[str, Any]]:
    with path.open() as rows:
        trace = list(csv.DictReader(rows))
    at = [datetime.fromisoformat(row["TIMESTAMP"][:26]) for row in trace]
    seconds = [(each - at[0]).total_seconds() for each in at]
    return [
        {
            "kind": "call",
            "at_s": round(at_s, 3),
            "tier": TIERS[n // thin % len(TIERS)],
            "prompt": max(1, min(int(row["ContextTokens"]), PROMPT_MAX)),
            "answer_max": max(1, int(row["GeneratedTokens"])),
        }
        for n, (row, at_s) in enumerate(zip(trace, seconds, strict=True))
        if n % thin == 0 and at_s < until_s
    ]


async def _play(sluice: Running, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    begun_s = time.monotonic()
    async with httpx.AsyncClient(timeout=300.0) as http:
        changes: list[dict[str, Any]] = []
        watch = asyncio.create_task(_watch(http, sluice, begun_s, changes))
        async with asyncio.TaskGroup() as group:
            for call in calls:
                await asyncio.sleep(max(0.0, begun_s + call["at_s"] - time.monotonic()))
                group.create_task(_call(http, sluice, call))
        await asyncio.sleep(BOOKED_S)
        watch.cancel()
        for call in calls:
            await _look_up(http, sluice, call)
    return [*changes, *calls]


async def _call(http: httpx.AsyncClient, sluice: Running, call: dict[str, Any]) -> None:
    body = {
        "model": MODEL,
        "prompt": prompt_of(call),
        "max_tokens": call["answer_max"],
        "service_tier": call["tier"],
        "stream": True,
    }
    sent_s, first_s = time.monotonic(), None
    url = f"{sluice.base_url}/v1/completions"
    async with http.stream("POST", url, json=body, headers=sluice.tenant_headers) as answer:
        async for _ in answer.aiter_bytes():
            first_s = first_s or time.monotonic()
        ended_s = time.monotonic()
    call["rid"] = answer.headers.get("x-request-id", "")
    call["status"] = answer.status_code
    call["ttft_s"] = None if first_s is None else round(first_s - sent_s, 4)
    call["e2e_s"] = round(ended_s - sent_s, 4)


def prompt_of(call: dict[str, Any]) -> list[int]:
    """Tokens of chance: no prompt begins as another one does."""
    return random.Random(call["at_s"]).choices(range(1, 200), k=call["prompt"])


async def _look_up(http: httpx.AsyncClient, sluice: Running, call: dict[str, Any]) -> None:
    """What the gateway booked of the call."""
    url = f"{sluice.base_url}/admin/v1/requests/{call.pop('rid')}"
    row = (await http.get(url, headers=_admin(sluice))).json()
    call |= {name: row.get(name) for name in ("pool", "rule", "wait", "usage", "cost_usd")}
    call["cogs_usd"] = (row.get("cogs") or {}).get("cogs_usd")
    call["attempts"] = len(row.get("attempts") or ())


async def _watch(
    http: httpx.AsyncClient, sluice: Running, begun_s: float, changes: list[dict[str, Any]]
) -> None:
    """Keep what changes in the pools of the model."""
    last: dict[str, Any] = {}
    while True:
        url = f"{sluice.base_url}/admin/v1/fleet"
        for pool in (await http.get(url, headers=_admin(sluice))).json()["pools"]:
            states = [replica["state"] for replica in pool.get("replicas", ())]
            seen = {name: pool.get(name) for name in ("target", "reason", "waiting")}
            seen["states"] = {state: states.count(state) for state in sorted(set(states))}
            what = (seen["target"], str(seen["reason"]).partition(":")[0], str(seen["states"]))
            if pool["name"].startswith(MODEL) and last.get(pool["name"]) != what:
                last[pool["name"]] = what
                at_s = round(time.monotonic() - begun_s, 3)
                changes.append({"kind": "fleet", "at_s": at_s, "pool": pool["name"]} | seen)
        await asyncio.sleep(LOOK_S)


def _admin(sluice: Running) -> dict[str, str]:
    return {"authorization": f"Bearer {sluice.ready['admin_key']}"}


def _summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    calls = [line for line in lines if line["kind"] == "call"]
    first = sorted(call["ttft_s"] for call in calls if call["ttft_s"] is not None)
    return {
        "calls": len(calls),
        "answered": sum(call["status"] == 200 for call in calls),
        "ttft_p50_s": first[len(first) // 2],
        "ttft_p99_s": first[len(first) * 99 // 100],
        "changes_of_the_fleet": len(lines) - len(calls),
        "load_average": os.getloadavg(),
    }


if __name__ == "__main__":
    main()
