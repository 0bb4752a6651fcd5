"""A controller that leads is killed: until another one has published a snapshot.

`python -m bench.leader [--rounds 10] [--out bench/raw/leader.jsonl]`. A Redis and two controllers
with their usual settings, without a cluster. In every second round the leader is stopped instead of
killed, and goes on when another one leads. `late_snapshots` counts snapshots of its own from then
on. One line a round, with the load of the machine beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tests.redis_server import RedisServer
from tests.workers.cluster import SECRET, TOKEN, Gateway, Part
from workers.controller.fleet_publisher import Fleet

ROOT = Path(__file__).parent.parent
LATE_S = 2.0
"""How long one that goes on is watched."""


class Bench:
    """What a `Gateway` of the tests looks at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.redis = RedisServer(folder)
        self.parts: dict[str, Part] = {}
        self.env = {
            "SLUICE_DATA": str(folder / "data"),
            "SLUICE_REDIS_URL": self.redis.url,
            "SLUICE_WORKER_SECRET": SECRET,
            "RAY_AUTH_TOKEN": TOKEN,
        }

    def control(self) -> Part:
        part = Part("workers.controller", self.env, self.folder / "controller.log")
        part.await_ready()
        return part


async def measure(bench: Bench, rounds: int, out: Path) -> None:
    gateway = Gateway(bench)  # type: ignore[arg-type]
    async with gateway:
        await gateway.publish()
        leader = bench.control()
        await gateway.next_controller("")
        for number in range(rounds):
            standby = bench.control()
            line = await one_round(gateway, leader, is_killed=number % 2 == 0)
            leader.end(signal.SIGKILL)
            leader = standby
            print(json.dumps(line), flush=True)
            with out.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
        leader.end()


async def one_round(gateway: Gateway, leader: Part, *, is_killed: bool) -> dict[str, Any]:
    before = await current(gateway)
    leader.signal(signal.SIGKILL if is_killed else signal.SIGSTOP)
    gone_s = time.monotonic()
    after = await gateway.next_controller(before.controller)
    next_s = time.monotonic() - gone_s
    line = {"is_killed": is_killed, "next_snapshot_s": round(next_s, 3)}
    if not is_killed:
        leader.signal(signal.SIGCONT)
        line["late_snapshots"] = await late_snapshots(gateway, after)
    return line | {"load": os.getloadavg()[0]}


async def late_snapshots(gateway: Gateway, after: Fleet) -> int:
    until_s, seen = time.monotonic() + LATE_S, set[int]()
    while time.monotonic() < until_s:
        fleet = await current(gateway)
        if fleet.controller != after.controller:
            seen.add(fleet.seq)
        await asyncio.sleep(0.01)
    return len(seen)


async def current(gateway: Gateway) -> Fleet:
    fleet = await gateway.fleet()
    assert fleet is not None, "the leader has published before"
    return fleet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "leader.jsonl")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        bench = Bench(Path(folder))
        bench.redis.start()
        try:
            asyncio.run(measure(bench, options.rounds, options.out))
        finally:
            bench.redis.kill9()
    lines = [msgspec.json.decode(line) for line in options.out.read_bytes().splitlines()]
    figures = sorted(line["next_snapshot_s"] for line in lines)
    print(f"median {median(figures)} s, worst {figures[-1]} s, {len(figures)} rounds")


if __name__ == "__main__":
    main()
