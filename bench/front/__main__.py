"""`python -m bench.front`: one gateway process on one core, beside other gateways in the same run.

Core 0 has the gateway alone, core 1 everything else: callers, upstream, Redis, the ledger writer.
Interleaved rounds; medians are printed, every round is written to `--out`. CPU of the gateway over
completed calls is the figure that a busy machine hurts least: quote ratios of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.front import load
from bench.front.load import Load
from bench.front.peers import KEY, Peer, peers
from bench.front.stack import API_KEY, Stack, end

UPSTREAM_PORT, GATEWAY_PORT, REDIS_PORT = 19_100, 18_081, 16_399
OURS = "sluice"
START_S = 120.0
Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["direct", "nginx", OURS])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--streams", type=int, default=128)
    parser.add_argument("--peers", type=Path, default=Path(".peers"))
    parser.add_argument("--out", type=Path, default=Path("bench/raw/front.jsonl"))
    options = parser.parse_args()
    os.sched_setaffinity(0, {1})
    rows: list[Figures] = []
    with _everything(options.peers, options.names) as start:
        for number in range(options.rounds):
            for name in options.names if number % 2 == 0 else options.names[::-1]:
                if name == "nginx" and not shutil.which(name):
                    continue
                with start(name) as (port, pid, key, is_slow, start_s):
                    row = {"name": name, "round": number, "load": os.getloadavg()[0]}
                    row |= {"start_s": start_s, **_measure(port, pid, key, is_slow, options)}
                rows.append(row)
                with options.out.open("a") as out:
                    out.write(json.dumps(row) + "\n")
                print(f"round {number}: {name}", file=sys.stderr, flush=True)
    print(_table(rows))


def _measure(
    port: int, pid: int | None, key: str, is_slow: bool, options: argparse.Namespace
) -> Figures:
    whole = load.request(key, "mock", stream=False)
    paced = load.request(key, "mock-5ms", stream=True)
    seconds: float = options.seconds
    rate, streams = (20, 16) if is_slow else (200, options.streams)
    return {
        "idle_mb": load.rss_mb(pid) if pid else 0.0,
        "saturated": load.run(port, whole, Load(32, seconds=seconds), pid),
        "light": load.run(port, whole, Load(64, rate=rate, seconds=seconds), pid),
        "streams": load.run(port, paced, Load(streams, seconds=seconds, streams=True), pid),
        "loaded_mb": load.rss_mb(pid) if pid else 0.0,
    }


Started = tuple[int, int | None, str, bool, float]


@contextmanager
def _everything(folder: Path, names: list[str]) -> Iterator[Callable[[str], Any]]:
    """The upstream, Redis and ledger for as long as the block runs; it starts gateways by name."""
    with ExitStack() as stack:
        work = Path(tempfile.mkdtemp(prefix="slf-", dir="/tmp"))
        stack.callback(shutil.rmtree, work, ignore_errors=True)
        upstream = load.start_upstream(UPSTREAM_PORT)
        stack.callback(end, upstream)
        known = peers(folder.absolute(), work, UPSTREAM_PORT, REDIS_PORT)
        missing = set(names) - known.keys() - {OURS}
        if missing - {"nginx"}:
            raise SystemExit(f"not installed (see bench/front/peers.py): {', '.join(missing)}")
        if any(known[name].is_slow for name in names if name in known):
            command = ["redis-server", "--port", str(REDIS_PORT), "--save", "", "--dir", str(work)]
            redis = subprocess.Popen(["taskset", "-c", "1", *command], stdout=subprocess.DEVNULL)
            stack.callback(end, redis)
        ours = stack.enter_context(Stack(work, GATEWAY_PORT, UPSTREAM_PORT))

        @contextmanager
        def start(name: str) -> Iterator[Started]:
            if name == OURS:
                with ours.gateway() as process:
                    yield GATEWAY_PORT, process.pid, API_KEY, False, ours.start_s
            else:
                with _peer(known[name]) as (pid, start_s):
                    yield known[name].port, pid, KEY, known[name].is_slow, start_s

        yield start


@contextmanager
def _peer(peer: Peer) -> Iterator[tuple[int | None, float]]:
    if peer.command is None:
        yield None, 0.0
        return
    started_s = time.monotonic()
    process = subprocess.Popen(
        ["taskset", "-c", "0", *peer.command],
        env=peer.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asked = load.request(KEY, "mock", stream=False)
        trial = Load(1, rate=20, warm_s=0.05, seconds=0.2)
        while not load.run(peer.port, asked, trial, None)["answered"]:
            if process.poll() is not None or time.monotonic() - started_s > START_S:
                raise SystemExit(f"did not start: {' '.join(peer.command)}")
        yield process.pid, time.monotonic() - started_s
    finally:
        end(process)


COLUMNS: dict[str, Callable[[Figures], float]] = {
    "calls/s": lambda r: r["saturated"]["per_s"],
    "CPU us/call": lambda r: _per(r["saturated"], "per_s"),
    "p50 ms, paced": lambda r: r["light"]["p50_us"] / 1e3,
    "p99 ms, paced": lambda r: r["light"]["p99_us"] / 1e3,
    "chunks/s": lambda r: r["streams"]["chunks_per_s"],
    "CPU us/chunk": lambda r: _per(r["streams"], "chunks_per_s"),
    "relay p99 ms": lambda r: r["streams"]["relay_p99_us"] / 1e3,
    "failed": lambda r: sum(r[part]["failed"] for part in ("saturated", "light", "streams")),
    "idle MB": lambda r: r["idle_mb"],
    "start s": lambda r: r["start_s"],
}


def _per(figures: Figures, rate: str) -> float:
    return float(figures["cores"] * 1e6 / figures[rate]) if figures[rate] else 0.0


def _table(rows: list[Figures]) -> str:
    lines = [f"| | {' | '.join(COLUMNS)} |", "|" + "---|" * (len(COLUMNS) + 1)]
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        cells = [statistics.median(map(column, mine)) for column in COLUMNS.values()]
        lines.append(f"| {name} | {' | '.join(f'{cell:,.2f}' for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
