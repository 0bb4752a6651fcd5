"""A mix over three spot zones that give and take, on the real stack: `python -m bench.zones TRACE`.

TRACE is the Azure LLM conversation file of 2023, which is read as by `bench.hour`: one of `--thin`
calls is sent at its own time, as a stream. Sluice runs with a node type for each of three spot
zones and one on demand, each node a raylet of this machine. The zones follow capacity files: those
of the folder `--markets` (three files, as of skypilot-org/spot-traces), else MARKETS below, so fast
that a step of 195 s takes `--step` seconds. A zone that goes says so `--notice` seconds before. The
model runs on the engine `simulated`, so text and timing do not depend on a GPU.

A call is lost if it gets anything but its whole answer. It is in time if its first token comes
within `--ttft` seconds and no pause of its stream is longer. The cost is that of all nodes from
their launch to their end. Beside it stands what the replicas that the mix needed (`mix.need`) would
have cost on demand, without any start, so on-demand only would have cost at least as much. A line
of JSON a run goes to bench/raw/zones.jsonl, with the load average of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.hour import calls_of, prompt_of
from bench.running import ROOT, Running, free_port, new_folder
from tests.simulated_model import simulated_model

RAW = ROOT / "bench" / "raw" / "zones.jsonl"
MODEL = "zoned"
GAP_S = 195.0
LOOK_S = 0.5
ANSWER_S = 300.0
ON_DEMAND_USD_PER_S = 0.001
SPOT_USD_PER_S = {"a": 0.0003, "b": 0.00031, "c": 0.00032}
MARKETS = {
    "a": (1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1),
    "b": (1, 1, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1),
    "c": (0, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1),
}
"""How many nodes a zone has, one count a step."""
CONFIG = f"""
[ray]
node_idle_s = 10.0
{simulated_model(MODEL, context_tokens=16384, max_output_tokens=4096)}
[[prices]]
model = "{MODEL}"
input_usd_per_mtok = "1"
output_usd_per_mtok = "1"

[[mixes]]
name = "{MODEL}"
model = "{MODEL}"
pools = ["spot-a", "spot-b", "spot-c", "rented"]
spare = 1
stable_s = 10.0
retry_s = 30.0
"""
POOL = f"""
[[pools]]
name = "NAME"
model = "{MODEL}"
variant = "fp16"
capacity_class = "MARKET"
nodes = "NAME"
engine = "simulated"
hardware = "h100"
speed = 0.25
initial_replicas = INITIAL
max_replicas = MOST
max_ongoing = 2
idle_s = 120.0
num_cpus = 1.0

[[nodes]]
name = "NAME"
market = "MARKET"
cpus = 1
max = MOST
spares = 1
cost_usd_per_s = "COST"
"""


def main() -> None:
    options = _options()
    calls = calls_of(options.trace, options.thin, options.minutes * 60)
    folder = new_folder()
    config = _configure(folder, options)
    try:
        with Running(folder, free_port(), config) as sluice:
            row = asyncio.run(_play(sluice, calls, options))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row |= {
        "minutes": options.minutes,
        "thin": options.thin,
        "step_s": options.step,
        "notice_s": options.notice,
        "ttft_s": options.ttft,
        "markets": str(options.markets.name) if options.markets else "MARKETS",
        "sha256": hashlib.sha256(options.trace.read_bytes()).hexdigest(),
        "load": [round(each, 1) for each in os.getloadavg()],
    }
    print(json.dumps(row), flush=True)
    with options.out.open("a") as out:
        out.write(json.dumps(row) + "\n")


def _configure(folder: Path, options: argparse.Namespace) -> Path:
    text = CONFIG + _pool("rented", "on_demand", ON_DEMAND_USD_PER_S, most=3)
    files = sorted(options.markets.glob("*.json")) if options.markets else []
    for place, (zone, cost) in enumerate(SPOT_USD_PER_S.items()):
        made = json.dumps({"metadata": {"gap_seconds": GAP_S}, "data": MARKETS[zone]})
        (folder / f"{zone}.json").write_text(files[place].read_text() if files else made)
        text += _pool(f"spot-{zone}", "spot", cost, initial=zone == "a")
        text += f'zone = "{zone}"\ncapacity_file = "{zone}.json"\n'
        text += f"capacity_speed = {GAP_S / options.step}\nnotice_s = {options.notice}\n"
    config = folder / "zones.toml"
    config.write_text(text)
    return config


def _pool(name: str, market: str, cost: float, *, most: int = 1, initial: bool = False) -> str:
    values = {"NAME": name, "MARKET": market, "COST": f"{cost:.6f}", "MOST": str(most)}
    text = POOL.replace("INITIAL", str(int(initial)))
    for word, value in values.items():
        text = text.replace(word, value)
    return text


async def _play(
    sluice: Running, calls: list[dict[str, Any]], options: argparse.Namespace
) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=ANSWER_S, limits=limits) as http:
        begun_s = time.time()
        watch = Watch(http, sluice)
        watching = asyncio.create_task(watch.go_on())
        async with asyncio.TaskGroup() as group:
            for call in calls:
                await asyncio.sleep(max(0.0, begun_s + call["at_s"] - time.time()))
                group.create_task(_call(http, sluice, call))
        ended_s = time.time()
        watching.cancel()
        await watch.look()
    in_time = [c for c in calls if c["whole"] and max(c["first_s"], c["pause_s"]) <= options.ttft]
    first = sorted(c["first_s"] for c in calls if c["whole"])
    cost, needed = watch.cost(begun_s, ended_s), watch.need_s * ON_DEMAND_USD_PER_S
    return {
        "calls": len(calls),
        "lost": sum(not call["whole"] for call in calls),
        "why_lost": sorted({call["why"] for call in calls if not call["whole"]}),
        "in_time": round(len(in_time) / len(calls), 5),
        "ttft_p50_s": first[len(first) // 2] if first else None,
        "ttft_p99_s": first[len(first) * 99 // 100] if first else None,
        "took_s": round(ended_s - begun_s, 1),
        "cost_usd": round(cost, 6),
        "on_demand_only_usd": round(needed, 6),
        "cost_share": round(cost / needed, 4) if needed else None,
        "node_s": watch.node_s(begun_s, ended_s),
        "nodes_taken_away": watch.taken_away(),
        "need_mean": round(watch.need_s / (ended_s - begun_s), 3),
        "looks_failed": watch.failures,
    }


async def _call(http: httpx.AsyncClient, sluice: Running, call: dict[str, Any]) -> None:
    body = {
        "model": MODEL,
        "prompt": prompt_of(call),
        "max_tokens": call["answer_max"],
        "stream": True,
    }
    at_s, tail, why = [time.monotonic()], b"", ""
    try:
        url = f"{sluice.base_url}/v1/completions"
        async with http.stream("POST", url, json=body, headers=sluice.tenant_headers) as answer:
            async for chunk in answer.aiter_bytes():
                tail = (tail + chunk)[-200:]
                if b"data: " in chunk:  # not what only keeps a waiting connection open
                    at_s.append(time.monotonic())
        why = "" if answer.status_code == 200 else f"{answer.status_code}"
    except httpx.HTTPError as wrong:
        why = type(wrong).__name__
    is_whole = not why and tail.rstrip().endswith(b"data: [DONE]")
    pauses = [after - before for before, after in pairwise(at_s[1:])]
    call["whole"], call["why"] = is_whole, why or ("" if is_whole else "no end")
    call["first_s"] = round(at_s[1] - at_s[0], 3) if len(at_s) > 1 else float("inf")
    call["pause_s"] = round(max(pauses, default=0.0), 3)


class Watch:
    """What there was of nodes, and what was needed, while the calls came. `need_s`: replicas times
    seconds."""

    def __init__(self, http: httpx.AsyncClient, sluice: Running) -> None:
        self._http = http
        self._url = f"{sluice.base_url}/admin/v1"
        self._headers = {"authorization": f"Bearer {sluice.ready['admin_key']}"}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._looked_s = time.time()
        self.need_s = 0.0
        self.failures = 0

    async def go_on(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """A need holds until the next look."""
        try:
            nodes = (await self._http.get(f"{self._url}/nodes", headers=self._headers)).json()
            fleet = (await self._http.get(f"{self._url}/fleet", headers=self._headers)).json()
        except httpx.HTTPError:
            self.failures += 1
            return
        self._nodes |= {node["id"]: node for node in nodes["data"]}
        now_s = time.time()
        need = max((pool["mix"]["need"] for pool in fleet["pools"] if pool["mix"]), default=0)
        self.need_s += need * (now_s - self._looked_s)
        self._looked_s = now_s

    def cost(self, since_s: float, until_s: float) -> float:
        """Of all nodes between the two, in USD."""
        return sum(
            _alive_s(node, since_s, until_s) * float(node["cost_nanousd_per_s"]) / 1e9
            for node in self._nodes.values()
        )

    def node_s(self, since_s: float, until_s: float) -> dict[str, float]:
        """Seconds of nodes, by type."""
        by_type: dict[str, float] = {}
        for node in self._nodes.values():
            alive_s = _alive_s(node, since_s, until_s)
            by_type[node["type"]] = round(by_type.get(node["type"], 0.0) + alive_s, 1)
        return by_type

    def taken_away(self) -> dict[str, int]:
        """How many nodes ended or are to end, by why."""
        whys = [str(node["why"]) for node in self._nodes.values() if node["why"]]
        return {why: whys.count(why) for why in sorted(set(whys))}


def _alive_s(node: dict[str, Any], since_s: float, until_s: float) -> float:
    ended_s = _epoch_s(node["ended_at"]) if node["ended_at"] else until_s
    return max(0.0, min(ended_s, until_s) - max(_epoch_s(node["launched_at"]), since_s))


def _epoch_s(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--markets", type=Path)
    parser.add_argument("--thin", type=int, default=15, help="one of so many calls is sent")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--step", type=float, default=60.0)
    parser.add_argument("--notice", type=float, default=10.0)
    parser.add_argument("--ttft", type=float, default=3.0)
    parser.add_argument("--out", type=Path, default=RAW)
    return parser.parse_args()


if __name__ == "__main__":
    main()
