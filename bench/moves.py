"""What callers notice of a node that goes: after a notice, and without one.

`python -m bench.moves [notice] [raylet] [replica] [prefill] [stall] [--streams 8] [--tokens 900]
[--notice 30] [--kills 10] [--engine simulated] [--system-words 0]` starts Sluice with two nodes of
one replica each, whose model is simulated, so that the machine's own load says little and every
text is known. The same streams run once undisturbed. Then a node is drained with that deadline, a
raylet is killed, or a replica is, `--kills` times. Half of the streams draw at temperature 1, half
of those have to call a tool. `prefill` kills a replica and asks the one that is left what it
computed of the answers that came, and what it had in its cache: `--engine continuous --system-words
500` for a real one, and prompts that begin alike. `stall` stops a replica, whose connections stay
open. A line of JSON a run goes to bench/raw/moves.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.running import QUESTION, Running, free_port, new_folder
from tests.simulated_model import simulated_model

RAW = Path(__file__).parent / "raw" / "moves.jsonl"
MODEL, POOL = "played", "played-spot"
PROBE_EVERY_S = 0.05
PROBES = 6
"""At once, so that both replicas get some."""
PROBED_BEFORE_S, PROBED_S = 2.0, 5.0
"""Before a notice, and after it."""
GIVE_UP_S = 180.0
CONFIG = f"""{simulated_model(MODEL, context_tokens=2048, max_output_tokens=1024)}
[[pools]]
name = "{POOL}"
model = "{MODEL}"
variant = "fp16"
capacity_class = "spot"
ENGINE
initial_replicas = 2
min_replicas = 2
max_replicas = 2
idle_s = 3600.0
num_cpus = 1.0
max_ongoing = 64

[[nodes]]
name = "spot"
market = "spot"
cpus = 1
max = 4
spares = 1
notice_s = NOTICE_S

[[prices]]
model = "{MODEL}"
input_usd_per_mtok = "1"
output_usd_per_mtok = "1"
"""
ENGINES = {
    "simulated": 'engine = "simulated"\nhardware = "h100"\nspeed = 0.25',
    "continuous": 'engine = "continuous"',
}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["town", "days"],
        },
    },
}


@dataclass(slots=True)
class Stream:
    """One that was read: what it said, when, and how it ended."""

    rid: str = ""
    text: str = ""
    at_s: list[float] = field(default_factory=list)
    is_whole: bool = False
    usage: tuple[int, int] = (0, 0)

    def pause_s(self, since_s: float) -> float:
        """The longest silence of those that ended behind `since_s`."""
        pairs = zip(self.at_s, self.at_s[1:], strict=False)
        return max((after - before for before, after in pairs if after > since_s), default=0.0)


class Bench:
    def __init__(self, sluice: Running, options: argparse.Namespace) -> None:
        self._sluice = sluice
        self._streams = options.streams
        self._tokens = options.tokens
        words = options.system_words
        system = {"role": "system", "content": "once upon a time " * (words // 4)}
        self._messages = [*([system] if words else []), *QUESTION]
        self._admin = {"authorization": f"Bearer {sluice.ready['admin_key']}"}
        self._http = httpx.Client(timeout=GIVE_UP_S, limits=httpx.Limits(max_connections=None))

    def undisturbed(self) -> list[Stream]:
        return self._read(lambda: None)[0]

    def _read(self, disturb: Callable[[], float | None]) -> tuple[list[Stream], float]:
        """All streams, and when they were disturbed: once each has said something."""
        streams = [Stream() for _ in range(self._streams)]
        with ThreadPoolExecutor(self._streams) as callers:
            reading = [callers.submit(self._one, n, each) for n, each in enumerate(streams)]
            until(lambda: all(len(each.at_s) > 5 for each in streams))
            at_s = disturb() or time.monotonic()
            for each in reading:
                each.result()
        return streams, at_s

    def _one(self, number: int, stream: Stream) -> None:
        body: dict[str, Any] = {
            "model": MODEL,
            "messages": self._messages,
            "max_tokens": self._tokens,
            "seed": number,
            "temperature": float(number % 2),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        body |= {"tools": [TOOL], "tool_choice": "required"} if number % 4 == 3 else {}
        body |= {"min_tokens": self._tokens - 50} if number % 4 != 3 else {}
        with self._http.stream(
            "POST",
            f"{self._sluice.base_url}/v1/chat/completions",
            headers=self._sluice.tenant_headers,
            json=body,
        ) as answer:
            stream.rid = answer.headers.get("x-request-id", "")
            for line in answer.iter_lines():
                self._take(line, stream)

    def _take(self, line: str, stream: Stream) -> None:
        if not line.startswith("data: "):
            return
        stream.at_s.append(time.monotonic())
        if line == "data: [DONE]":
            stream.is_whole = True
            return
        chunk = json.loads(line.removeprefix("data: "))
        for choice in chunk.get("choices", ()):
            delta = choice["delta"]
            calls = delta.get("tool_calls") or ()
            stream.text += (delta.get("content") or "") + "".join(
                call["function"].get("arguments", "") for call in calls
            )
        if usage := chunk.get("usage"):
            stream.usage = (usage["prompt_tokens"], usage["completion_tokens"])

    def disturbed(
        self, expected: Sequence[Stream], disturb: Callable[[dict[str, Any]], float]
    ) -> dict[str, Any]:
        """What became of the streams when the node or replica with most of them was disturbed."""
        streams, at_s = self._read(lambda: disturb(self.busiest()))
        attempts = [self._attempts(each.rid) for each in streams]
        moved = [
            each
            for each, of in zip(streams, attempts, strict=True)
            if any(attempt["outcome"] == "moved" for attempt in of)
        ]
        pauses = sorted(each.pause_s(at_s) for each in moved)
        return {
            "streams": len(streams),
            "lost": sum(not each.is_whole for each in streams),
            "moved": len(moved),
            "same_text": sum(a.text == b.text for a, b in zip(streams, expected, strict=True)),
            "same_usage": sum(a.usage == b.usage for a, b in zip(streams, expected, strict=True)),
            "pauses_s": [round(each, 3) for each in pauses],
            "usual_pause_s": round(max(each.pause_s(0.0) for each in expected), 3),
            "load": round(os.getloadavg()[0], 1),
        }

    def busiest(self) -> dict[str, Any]:
        """The warm replica with most calls."""
        replicas = self._sluice.pool(POOL)["replicas"]
        warm = [each for each in replicas if each["state"] == "WARM"]
        return max(warm, key=lambda each: each["running"])

    def _attempts(self, rid: str) -> list[dict[str, Any]]:
        return self._record(rid)["attempts"]

    def _record(self, rid: str) -> dict[str, Any]:
        url = f"{self._sluice.base_url}/admin/v1/requests/{rid}"
        records: list[dict[str, Any]] = []

        def is_booked() -> bool:
            answer = self._http.get(url, headers=self._admin)
            if answer.status_code == 200 and answer.json().get("attempts"):
                records.append(answer.json())
            return bool(records)

        until(is_booked)
        return records[0]

    def drain(self, replica: dict[str, Any], deadline_s: float) -> float:
        at_s = time.monotonic()
        self._http.post(
            f"{self._sluice.base_url}/admin/v1/nodes/{replica['node']}/drain",
            headers=self._admin,
            json={"deadline_s": deadline_s},
        ).raise_for_status()
        return at_s

    def probe(self, rids: list[str], stopping: threading.Event) -> None:
        """Short calls, one after the other, until told to stop."""
        while not stopping.wait(PROBE_EVERY_S):
            rids.append(self._sluice.ask(MODEL).headers["x-request-id"])

    def replica_of(self, rid: str) -> dict[str, Any]:
        """The one that answered a call."""
        id = self._attempts(rid)[-1]["replica"]
        return next(each for each in self._sluice.pool(POOL)["replicas"] if each["id"] == id)

    def last_call_at_s(self, rids: Sequence[str], replica: str) -> float:
        """When the last attempt of these calls at a replica began, in epoch seconds."""
        attempts = [each for rid in rids for each in self._attempts(rid)]
        begun = [a["started_us"] / 1e6 for a in attempts if a["replica"] == replica]
        return max(begun, default=0.0)

    def kill(self, pid: int) -> float:
        at_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return at_s

    def survivor(self, lost: dict[str, Any]) -> str:
        """The address of the warm replica that is another one."""
        replicas = self._sluice.pool(POOL)["replicas"]
        [other] = [r for r in replicas if r["state"] == "WARM" and r["id"] != lost["id"]]
        return str(other["address"])

    def prefilled(self, address: str) -> tuple[int, int]:
        """Tokens that a replica has computed of prompts by now, and those it had in its cache."""
        url, headers = f"{address}/v1/sluice/stats", self._sluice.worker_headers
        stats = self._http.get(url, headers=headers).raise_for_status().json()
        return stats["tokens_prefilled_total"], stats["tokens_cached_total"]

    def raylet_of(self, replica: dict[str, Any]) -> int:
        nodes = self._http.get(f"{self._sluice.base_url}/admin/v1/nodes", headers=self._admin)
        return int(next(n["pid"] for n in nodes.json()["data"] if n["id"] == replica["node"]))

    def until_warm(self, count: int = 2) -> None:
        def is_warm() -> bool:
            replicas = self._sluice.pool(POOL)["replicas"]
            return sum(each["state"] == "WARM" for each in replicas) >= count

        until(is_warm)


def until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + GIVE_UP_S
    while not holds():
        if time.monotonic() > give_up_s:
            raise TimeoutError("it never came about")
        time.sleep(0.05)


def main() -> None:
    options = _options()
    data = new_folder()
    config = CONFIG.replace("NOTICE_S", str(options.notice))
    (data / "moves.toml").write_text(config.replace("ENGINE", ENGINES[options.engine]))
    try:
        with Running(data, free_port(), data / "moves.toml") as sluice:
            bench = Bench(sluice, options)
            bench.until_warm()
            expected = bench.undisturbed()
            for kind in options.kinds:
                figures = RUNS[kind](bench, expected, options)
                _keep({"kind": kind, "engine": options.engine} | figures)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def _notice(
    bench: Bench, expected: Sequence[Stream], options: argparse.Namespace
) -> dict[str, Any]:
    """The node is drained that calls go to, and probes say when the last one went there."""
    stopping, rids, drained = threading.Event(), list[str](), list[tuple[str, float]]()
    probing = [threading.Thread(target=bench.probe, args=(rids, stopping)) for _ in range(PROBES)]

    def drain(_: dict[str, Any]) -> float:
        for probe in probing:
            probe.start()
        time.sleep(PROBED_BEFORE_S)
        replica = bench.replica_of(rids[-1])
        drained.append((replica["id"], time.time()))
        at_s = bench.drain(replica, options.notice)
        threading.Timer(PROBED_S, stopping.set).start()
        return at_s

    figures = bench.disturbed(expected, drain)
    for probe in probing:
        probe.join()
    [(replica, at_s)] = drained
    last_s = bench.last_call_at_s(rids, replica) - at_s
    assert last_s > -PROBED_BEFORE_S, "calls went there before"
    bench.until_warm()
    probed = {"probes": len(rids), "last_new_call_s": round(last_s, 3)}
    return {"notice_s": options.notice} | probed | figures


def _raylet(
    bench: Bench, expected: Sequence[Stream], options: argparse.Namespace
) -> dict[str, Any]:
    figures = bench.disturbed(expected, lambda replica: bench.kill(bench.raylet_of(replica)))
    bench.until_warm()
    return figures


def _replica(
    bench: Bench, expected: Sequence[Stream], options: argparse.Namespace
) -> dict[str, Any]:
    """Killed again and again, each time at another token."""
    rng = random.Random(options.seed)
    runs = []
    for _ in range(options.kills):

        def kill(replica: dict[str, Any]) -> float:
            time.sleep(rng.uniform(0.0, 8.0))
            return bench.kill(int(replica["pid"]))

        runs.append(bench.disturbed(expected, kill))
        bench.until_warm()
    sums = {name: sum(run[name] for run in runs) for name in SUMS}
    pauses = sorted(pause for run in runs for pause in run["pauses_s"])
    return sums | {"kills": options.kills, "pauses_s": pauses, "load": runs[-1]["load"]}


def _prefill(
    bench: Bench, expected: Sequence[Stream], options: argparse.Namespace
) -> dict[str, Any]:
    """Its own streams have their prompts, so all that it prefills from then on are those that came,
    with what they had said."""
    left = list[tuple[str, tuple[int, int]]]()

    def kill(replica: dict[str, Any]) -> float:
        address = bench.survivor(replica)
        left.append((address, bench.prefilled(address)))
        return bench.kill(int(replica["pid"]))

    figures = bench.disturbed(expected, kill)
    [(address, before)] = left
    computed, cached = (
        now - was for now, was in zip(bench.prefilled(address), before, strict=True)
    )
    bench.until_warm()
    prompt = expected[0].usage[0]
    counts = {"prompt_tokens": prompt, "computed_tokens": computed, "cached_tokens": cached}
    return {"system_words": options.system_words} | counts | figures


def _stall(bench: Bench, expected: Sequence[Stream], options: argparse.Namespace) -> dict[str, Any]:
    """It goes on once all streams have ended."""
    stopped = list[int]()

    def stop(replica: dict[str, Any]) -> float:
        at_s = time.monotonic()
        stopped.append(int(replica["pid"]))
        os.kill(stopped[0], signal.SIGSTOP)
        return at_s

    figures = bench.disturbed(expected, stop)
    os.kill(stopped[0], signal.SIGCONT)
    return figures


SUMS = ("streams", "lost", "moved", "same_text", "same_usage")
RUNS = {
    "notice": _notice,
    "raylet": _raylet,
    "replica": _replica,
    "prefill": _prefill,
    "stall": _stall,
}


def _keep(row: dict[str, Any]) -> None:
    pauses = row["pauses_s"]
    if pauses:
        row["pause_p50_s"] = statistics.median(pauses)
        row["pause_p95_s"] = pauses[min(len(pauses) - 1, round(0.95 * len(pauses)))]
    print(json.dumps(row), flush=True)
    with RAW.open("a") as raw:
        raw.write(json.dumps(row) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "kinds", nargs="*", choices=[*RUNS], default=["notice", "raylet", "replica"]
    )
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=900)
    parser.add_argument("--notice", type=float, default=30.0)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--engine", choices=[*ENGINES], default="simulated")
    parser.add_argument("--system-words", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
