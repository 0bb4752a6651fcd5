"""Replica counts over a real trace in virtual time: `python -m bench.demand TRACE TOKENS`.

TRACE is a folder of ServeGen clients (`chunk-*-trace.csv`: start second, calls/s, CV, family and
two shapes for each ten minutes). TOKENS is the Azure LLM conversation file (`TIMESTAMP,
ContextTokens,GeneratedTokens`): ServeGen has no lengths here, so they are drawn from it, with a
seed. The counts are those of the product's own functions (`workers.autoscaling`), looked at every
`--tick` seconds. Beside them stand Ray Serve's default policy, made again from its documented
formula (ray 2.60, `serve/autoscaling_policy.py`: the mean of open requests over 30 s, divided by
the target; up after 30 s, down after 600 s, one at once from zero), and constant counts. A replica
has `--slots` slots, does a prompt at 4,000 tokens/s and a step in 10 ms, and starts in `--start`
seconds. A call attains its goal if its first token comes within `--ttft` seconds. Queues are first
come, first served; a call goes to the replica with the fewest. `--out FILE` keeps each run as a
line of JSON.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import ceil
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from workers.autoscaling.demand import IDLE, UNMEASURED, Demand, Pace, Worked, learned
from workers.autoscaling.forecast import Forecast, OpenMinutes, Season, Values, after_look, forecast
from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, ReplicaView

PREFILL_TOKENS_PER_S, STEP_S = 4000.0, 0.010
BIN_S, DAY_S = 600, 86_400
SEED = 16


@dataclass(frozen=True)
class Trace:
    """Calls in order of arrival: seconds, tokens of the prompt, tokens of the answer."""

    at_s: np.ndarray
    prompt: np.ndarray
    answer: np.ndarray
    end_s: float


@dataclass(slots=True)
class Replica:
    id: str
    born_s: float
    running: int = 0
    active_s: float = 0.0
    leaving: bool = False
    refusing: bool = False
    pool: str = ""


class Policy(Protocol):
    def targets(self, pool: Any) -> Any: ...


@dataclass
class Pool:
    """One pool in virtual time. A policy says its count after each tick."""

    slots: int
    start_s: float
    at_s: float = 0.0
    replicas: list[Replica] = field(default_factory=list)
    queue: deque[int] = field(default_factory=deque)
    ends: list[tuple[float, int, int]] = field(default_factory=list)  # when, place, replica
    by_number: dict[int, Replica] = field(default_factory=dict)
    begun: int = 0
    flow: float = 0.0  # tokens a second of all open calls
    worked: Worked = IDLE
    replica_s: float = 0.0
    starts: int = 0
    _number: int = 0

    def lost_calls(self) -> list[tuple[int, float]]:
        """Calls whose replicas went since the last tick, and the seconds that they still take."""
        return []

    @property
    def open(self) -> int:
        return len(self.ends) + len(self.queue)

    def warm(self) -> list[Replica]:
        return [each for each in self.replicas if each.born_s + self.start_s <= self.at_s]

    def follow(self, target: int) -> None:
        """Start or stop. Idle ones and those that still start go first, those at work finish."""
        staying = [each for each in self.replicas if not each.leaving]
        for _ in range(target - len(staying)):
            self.start()
        staying.sort(key=lambda each: (each.running, -each.born_s))
        for each in staying[: max(0, len(staying) - target)]:
            each.leaving = True
        self.replicas = [each for each in self.replicas if each.running or not each.leaving]

    def start(self, pool: str = "") -> None:
        self._number += 1
        self.starts += 1
        fresh = Replica(f"{self._number:06}", self.at_s, active_s=self.at_s, pool=pool)
        self.by_number[self._number] = fresh
        self.replicas.append(fresh)


def run(trace: Trace, pool: Pool, policy: Policy, tick_s: float, ttft_s: float) -> dict[str, float]:
    """Every call of the trace. Returns what it cost and how soon first tokens came."""
    waits = np.zeros(len(trace.at_s))
    prompt_s = trace.prompt / PREFILL_TOKENS_PER_S
    call_s = prompt_s + trace.answer * STEP_S
    flow = (trace.prompt + trace.answer) / np.maximum(call_s, 1e-6)
    next_call, calls = 0, len(trace.at_s)
    peak = 0
    moved: dict[int, float] = {}
    pauses = np.zeros(len(trace.at_s))

    def begin(call: int, at_s: float, free: Replica) -> None:
        if call in moved:
            pauses[call] = max(pauses[call], at_s - moved[call])
        else:
            waits[call] = at_s - trace.at_s[call]
        free.running += 1
        pool.begun += 1
        pool.flow += flow[call]
        heappush(pool.ends, (at_s + call_s[call], call, int(free.id)))

    def chosen() -> Replica | None:
        free = [e for e in warm if e.running < pool.slots and not e.leaving and not e.refusing]
        return min(free, key=lambda each: each.running, default=None)

    while pool.at_s < trace.end_s or pool.ends or pool.queue:
        pool.at_s += tick_s
        for call, left_s in pool.lost_calls():
            pool.flow -= flow[call]
            call_s[call], moved[call] = left_s, pool.at_s - tick_s
            pool.queue.appendleft(call)
        warm = pool.warm()
        while pool.queue and (free := chosen()) is not None:  # who waited for a start
            begin(pool.queue.popleft(), pool.at_s - tick_s, free)
        flow_before = pool.flow
        while True:
            arrival_s = trace.at_s[next_call] if next_call < calls else float("inf")
            end_s = pool.ends[0][0] if pool.ends else float("inf")
            if min(arrival_s, end_s) > pool.at_s:
                break
            if end_s <= arrival_s:
                _, call, number = heappop(pool.ends)
                ended = pool.by_number[number]
                ended.running -= 1
                ended.active_s = end_s
                pool.flow -= flow[call]
                if pool.queue and (free := chosen()) is not None:
                    begin(pool.queue.popleft(), end_s, free)
                continue
            if (free := chosen()) is not None and not pool.queue:
                begin(next_call, arrival_s, free)
            else:
                pool.queue.append(next_call)
            next_call += 1
        busy = sum(each.running > 0 for each in pool.replicas)
        tokens = round((flow_before + pool.flow) / 2 * tick_s)
        pool.worked = Worked(
            pool.begun, pool.worked.tokens + tokens, pool.worked.busy_s + busy * tick_s
        )
        pool.replica_s += len(pool.replicas) * tick_s
        peak = max(peak, len(pool.replicas))
        pool.follow(policy.targets(pool))
    first = waits + prompt_s
    return {
        "moved": len(moved),
        "paused_max_s": round(float(np.max(pauses, initial=0)), 3),
        "in_time": round(float(np.mean((first <= ttft_s) & (pauses <= ttft_s))), 6),
        "replica_hours": round(pool.replica_s / 3600, 1),
        "attainment": round(float(np.mean(first <= ttft_s)), 5),
        "ttft_p50_s": round(float(np.quantile(first, 0.5)), 3),
        "ttft_p99_s": round(float(np.quantile(first, 0.99)), 3),
        "wait_mean_s": round(float(np.mean(waits)), 4),
        "starts": pool.starts,
        "peak": peak,
    }


class Ours:
    """The product's own decision, with its own measurement of what a replica does."""

    def __init__(self, knobs: Knobs, start_s: float, values: Values | None = None) -> None:
        self.knobs = knobs
        self.values = values
        self.season, self.seen_ms = Season(), 0
        self.running: OpenMinutes | None = None
        self.memory = PoolMemory(target=0, cold_start_ms=start_s * 1000)
        self.pace: Pace = UNMEASURED
        self.taken: Worked = IDLE

    def targets(self, pool: Pool) -> int:
        now = pool.worked
        step = Worked(
            now.calls - self.taken.calls,
            now.tokens - self.taken.tokens,
            now.busy_s - self.taken.busy_s,
        )
        fresh = learned(self.pace, step)
        if fresh is not self.pace:
            self.pace, self.taken = fresh, now
        at_ms = round(pool.at_s * 1000)
        seen = tuple(self._seen(each, pool) for each in pool.replicas)
        demand = Demand(begun=pool.begun, pace=self.pace, forecast=self._forecast(pool, at_ms))
        view = PoolView(at_ms, seen, len(pool.queue), demand=demand)
        self.memory, decision = decide(view, self.memory, self.knobs)
        for each in pool.replicas:
            each.leaving = each.id in decision.leaving and decision.target < self._staying(pool)
            each.refusing = each.id in decision.refusing or each.id in decision.leaving
        return decision.target

    def _forecast(self, pool: Pool, at_ms: int) -> Forecast | None:
        if self.values is None:
            return None
        self.season, self.running = after_look(
            *(self.season, self.running),
            at_ms=at_ms,
            since_ms=self.seen_ms,
            load=pool.open,
            begun=pool.begun,
        )
        self.seen_ms = at_ms
        return forecast(
            self.season,
            at_ms=at_ms,
            slots=self.knobs.slots,
            most=self.knobs.max_replicas,
            values=self.values,
        )

    @staticmethod
    def _staying(pool: Pool) -> int:
        return len(pool.replicas)

    def _seen(self, each: Replica, pool: Pool) -> ReplicaView:
        since_ms = round(each.born_s * 1000)
        if each.born_s + pool.start_s > pool.at_s:
            return ReplicaView(each.id, Phase.STARTING, since_ms)
        idle_ms = 0 if each.running else round((pool.at_s - each.active_s) * 1000)
        phase = Phase.DRAINING if each.refusing else Phase.WARM
        return ReplicaView(each.id, phase, since_ms, running=each.running, idle_ms=idle_ms)


class RayServe:
    """Ray Serve's default policy and its delays, by wall clock."""

    def __init__(
        self, target_ongoing: float, least: int, most: int, *, up_s: float = 30, down_s: float = 600
    ) -> None:
        self.target_ongoing, self.least, self.most = target_ongoing, least, most
        self.up_s, self.down_s = up_s, down_s
        self.target = least
        self.samples: deque[tuple[float, int]] = deque()
        self.since_s: float | None = None
        self.direction = 0

    def targets(self, pool: Pool) -> int:
        self.samples.append((pool.at_s, pool.open))
        while self.samples[0][0] < pool.at_s - 30:
            self.samples.popleft()
        if not pool.warm() and pool.open:
            self.target = max(1, self.target)
            return self.target
        mean = sum(n for _, n in self.samples) / len(self.samples)
        desired = min(max(ceil(mean / self.target_ongoing), self.least), self.most)
        direction = (desired > self.target) - (desired < self.target)
        if direction == 0:
            self.since_s, self.direction = None, 0
            return self.target
        if direction != self.direction:
            self.since_s, self.direction = pool.at_s, direction
        delay_s = self.up_s if direction > 0 else self.down_s
        assert self.since_s is not None
        if pool.at_s - self.since_s >= delay_s:
            to_zero = self.target == 1
            self.target = desired if direction > 0 or to_zero else max(1, desired)
            self.since_s, self.direction = None, 0
        return self.target


@dataclass
class Constant:
    count: int

    def targets(self, pool: Pool) -> int:
        return self.count


def servegen(folder: Path, tokens: Path, scale: float, days: float) -> Trace:
    """Arrivals of each client's renewal process, its rates divided by `scale`."""
    draws = np.random.default_rng(SEED)
    times = [
        at_s
        for path in sorted(folder.glob("chunk-*-trace.csv"))
        for at_s in _arrivals(path, scale, days, draws)
    ]
    at_s = np.sort(np.concatenate(times))
    lengths = _lengths(tokens)[draws.integers(0, len(_lengths(tokens)), len(at_s))]
    return Trace(at_s, lengths[:, 0], lengths[:, 1], days * DAY_S)


def _arrivals(
    path: Path, scale: float, days: float, draws: np.random.Generator
) -> Iterator[np.ndarray]:
    with path.open() as rows:
        for start, rate, _, family, first, _ in csv.reader(rows):
            per_s = float(rate) / scale
            if not per_s or float(start) >= days * DAY_S:
                continue
            shape = min(max(float(first), 0.05), 50.0) if family else 1.0
            count = ceil(per_s * BIN_S * 2 + 20)
            if family == "Weibull":
                gaps = draws.weibull(shape, count)
            else:
                gaps = draws.gamma(shape, 1 / shape, count)
            gaps = gaps / max(gaps.mean(), 1e-9) / per_s
            gaps[0] *= draws.random()
            at_s = np.cumsum(gaps)
            yield float(start) + at_s[at_s < BIN_S]


def _lengths(path: Path) -> np.ndarray:
    with path.open() as rows:
        return np.array([(int(r[1]), int(r[2])) for r in list(csv.reader(rows))[1:]], dtype=float)


def sha256(paths: list[Path]) -> str:
    whole = hashlib.sha256()
    for path in paths:
        whole.update(path.read_bytes())
    return whole.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("tokens", type=Path)
    parser.add_argument("--scale", type=float, default=400.0, help="rates are divided by it")
    parser.add_argument("--days", type=float, default=14.0)
    parser.add_argument("--tick", type=float, default=2.0)
    parser.add_argument("--slots", type=int, default=5)
    parser.add_argument("--start", type=float, default=30.0)
    parser.add_argument("--idle", type=float, default=3600.0, help="our `idle_s`")
    parser.add_argument("--ttft", type=float, default=3.0)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--replica-usd", type=float, default=0.0007, help="USD of its second")
    parser.add_argument("--wait-usd", type=float, default=0.01, help="USD of a caller's second")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    trace = servegen(args.trace, args.tokens, args.scale, args.days)
    knobs = Knobs(
        min_replicas=0,
        max_replicas=args.most,
        slots=args.slots,
        idle_ms=round(args.idle * 1000),
        up_delay_ms=2_000,
        settle_ms=600,
        drain_timeout_ms=60_000,
        start_timeout_ms=900_000,
        start_attempts=3,
        backoff_ms=5_000,
        backoff_max_ms=300_000,
        ttft_ms=1_000,
        down_ms=180_000,
    )
    values = Values(
        args.replica_usd, args.wait_usd, round(args.start * 1000), round(args.idle * 1000)
    )
    policies: dict[str, Callable[[], Policy]] = {
        "sluice": lambda: Ours(knobs, args.start),
        "forecast": lambda: Ours(knobs, args.start, values),
        "ray serve, default (2 open calls a replica)": lambda: RayServe(2, 1, args.most),
        "ray serve, 70 % of the slots": lambda: RayServe(0.7 * args.slots, 1, args.most),
    }
    policies |= {f"constant {n}": (lambda n=n: Constant(n)) for n in (6, 8, 9, 10, 12)}
    source = sha256([*sorted(args.trace.glob("chunk-*-trace.csv")), args.tokens])
    for name, made in policies.items():
        if args.only and not any(name.startswith(each) for each in args.only):
            continue
        begun_s = time.monotonic()
        figures = run(trace, Pool(args.slots, args.start), made(), args.tick, args.ttft)
        line = {"policy": name, "calls": len(trace.at_s)} | figures
        line |= {"took_s": round(time.monotonic() - begun_s, 1)}
        print(json.dumps(line), flush=True)
        if args.out:
            settings = {k: v for k, v in vars(args).items() if isinstance(v, float | int)}
            with args.out.open("a") as out:
                out.write(json.dumps(line | {"settings": settings, "sha256": source}) + "\n")


if __name__ == "__main__":
    main()
