"""`python -m bench.front.turns`: what the ledger writer's long turns are worth to a call.

Whole answers at 200 calls/s, the gateway on core 0, everything else on core 1; in turn with the
writer at ordinary turns of the kernel's scheduler and at its own long ones
(`billing.tuning`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path

from bench.front import load
from bench.front.load import Load
from bench.front.stack import API_KEY, Stack, end
from billing.tuning import TURN_S, take_long_turns

UPSTREAM_PORT, GATEWAY_PORT = 19_120, 18_095
ORDINARY_S = 0.0014
TURNS = {"ordinary turns": ORDINARY_S, "long turns": TURN_S}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    work = Path(tempfile.mkdtemp(prefix="slt-", dir="/tmp"))
    upstream = load.start_upstream(UPSTREAM_PORT)
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in TURNS}
    direct: list[tuple[int, int]] = []
    asked = load.request(API_KEY, "mock", stream=False)
    paced = Load(64, rate=200, seconds=options.seconds)
    try:
        with Stack(work, GATEWAY_PORT, UPSTREAM_PORT) as stack, stack.gateway() as gateway:
            load.run(GATEWAY_PORT, asked, Load(8, seconds=1.0), gateway.pid)
            for _ in range(options.rounds):
                direct.append(_paced(UPSTREAM_PORT, asked, paced))
                for name, turn_s in TURNS.items():
                    _set_turns(stack.ledger_pid, turn_s)
                    found[name].append(_paced(GATEWAY_PORT, asked, paced))
    finally:
        end(upstream)
        shutil.rmtree(work, ignore_errors=True)
    for name, rounds in {"upstream called directly": direct, **found}.items():
        p50s, p99s = zip(*rounds, strict=True)
        medians = f"p50 {statistics.median(p50s):.0f} us, p99 {statistics.median(p99s):.0f} us"
        print(f"{name}: {medians}; p50s {sorted(p50s)}, p99s {sorted(p99s)}")


def _paced(port: int, asked: bytes, paced: Load) -> tuple[int, int]:
    """p50 and p99 of one stretch, microseconds."""
    figures = load.run(port, asked, paced, None)
    if figures["failed"]:
        raise RuntimeError(f"{figures['failed']} calls failed")
    return figures["p50_us"], figures["p99_us"]


def _set_turns(pid: int, turn_s: float) -> None:
    """Of every thread of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        if not take_long_turns(turn_s, int(thread)):
            raise RuntimeError("the kernel gives no turns")


if __name__ == "__main__":
    main()
