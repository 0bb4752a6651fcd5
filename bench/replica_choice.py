"""Replica choice beside random, least loaded and one replica: `python -m bench.replica_choice`.

A simulation, for a machine that has no cores for three engines: the choice is the product's own
(`gateway/replicas`, `routing/replicas`), and so are the schedule and the prefix cache of a replica
(`workers/engines/continuous`). Time is simulated: 4,000 tokens/s of prefill and 10 ms a decoding
step, a pool's figures by default. Gauges are 0.45 s old, gateways share counts every 0.1 s.
Conversations: 50 of 8 turns, a common beginning of 256 tokens, 3 s between turns. Strangers: 600
calls a run that share nothing, 11.5 a second: their prefill takes 62 % of three replicas' time.
`--out FILE` keeps every run.
"""

from __future__ import annotations

import argparse
import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from random import Random
from statistics import median
from timeit import repeat
from typing import Any

from bench.running import ROOT
from gateway.replicas.placement import Chosen, OpenPlace, Placement, together
from routing.gauges import Gauges
from routing.replicas.blocks import NO_CHAIN, Beginning, chain_of
from routing.replicas.work import NO_WORK
from routing.types import Call, CapacityClass, Pool, PoolState, Replica, ReplicaState, Tier
from workers.engines.continuous.prefix import PrefixIndex
from workers.engines.continuous.scheduler import Limits, Occupancy, admissions, prefill_chunks

PREFILL_TOKENS_PER_S, STEP_S = 4000.0, 0.010
LIMITS = Limits(slots=16, staging_rows=4, prefill_tokens_max=256)
BLOCK_TOKENS = 16
GAUGES_S, COUNTS_S = 0.45, 0.1
OUTPUT_MAX, CONVERSATIONS, TURNS, THINK_S = 200, 50, 8, 3.0
COMMON, ASKED, STRANGERS, RATE = 256, (20, 100), 600, 11.5
POOL = Pool("p", "m", "v", CapacityClass.RESERVED, 3, LIMITS.slots, 0, 0, 0, 8.0)

Choose = Callable[["Run", "Job"], int]


@dataclass(eq=False)
class Job:
    """One call."""

    tokens: list[int]
    output: int
    arrived_s: float
    owner: int
    turn: int = 0
    gateway: int = 0
    computed: int = 0
    cached: int = 0
    made: int = 0
    first_s: float = 0.0
    place: OpenPlace | None = None


class Seen:
    """What a gateway's meter says of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def output(self) -> int:
        return self._job.made


@dataclass
class Engine:
    """A replica: the engine's own schedule and cache over simulated time."""

    cache_tokens: int
    waiting: list[Job] = field(default_factory=list)
    staging: list[Job] = field(default_factory=list)
    decoding: list[Job] = field(default_factory=list)
    work_s: float = 0.0
    is_stepping: bool = False

    def __post_init__(self) -> None:
        blocks = self.cache_tokens // BLOCK_TOKENS
        self.cache = PrefixIndex(blocks=blocks, block_tokens=BLOCK_TOKENS)

    @property
    def open(self) -> list[Job]:
        return self.waiting + self.staging + self.decoding

    def step(self) -> tuple[float, list[Job], list[Job]]:
        """One step: how long it takes, whose first token it makes, and who ends with it."""
        occupancy = Occupancy(len(self.waiting), len(self.staging), len(self.decoding))
        for _ in range(admissions(occupancy, LIMITS)):
            job = self.waiting.pop(0)
            job.cached = job.computed = len(self.cache.match("", job.tokens)) * BLOCK_TOKENS
            self.staging.append(job)
        took_s = STEP_S if self.decoding else 0.0
        for job in self.decoding:
            job.made += 1
        chunks = prefill_chunks([len(j.tokens) - j.computed for j in self.staging], LIMITS)
        took_s += sum(chunks) / PREFILL_TOKENS_PER_S
        for job, chunk in zip(self.staging, chunks, strict=True):
            job.computed += chunk
        begun = [job for job in self.staging if job.computed == len(job.tokens)]
        for job in begun:
            self.staging.remove(job)
            self.cache.insert("", job.tokens)
            job.made = 1
        self.decoding += begun
        ended = [job for job in self.decoding if job.made >= job.output]
        for job in ended:
            self.decoding.remove(job)
        self.work_s += took_s
        return took_s, begun, ended

    def gauges(self) -> Gauges:
        jobs = self.open
        left = sum(max(0, len(j.tokens) - j.computed) for j in jobs if not j.made)
        held = sum(job.computed + job.made for job in self.staging + self.decoding)
        output = sum(max(1, OUTPUT_MAX // 2 - job.made) for job in jobs)
        return Gauges(held, LIMITS.slots * 4096, self.cache_tokens, left, output)


class Run:
    def __init__(
        self, choose: Choose, *, replicas: int, cache_tokens: int, seed: int, gateways: int = 1
    ) -> None:
        self.choose, self.rng = choose, Random(seed)
        self.engines = [Engine(cache_tokens) for _ in range(replicas)]
        self.gateways = [Placement(Random(f"{seed}/{n}")) for n in range(gateways)]
        self.hints = False
        self.ended: list[Job] = []
        self._events: list[tuple[float, int, str, Any]] = []
        self._order = count()
        self._seen_replicas()

    def at(self, when_s: float, what: str, about: Any = None) -> None:
        heappush(self._events, (when_s, next(self._order), what, about))

    def go(self, jobs: int, then: Callable[[Job, float], Job | None]) -> None:
        """Until so many have ended; `then` is what follows one."""
        for what in ("gauges", "counts"):
            self.at(0.0, what)
        while len(self.ended) < jobs:
            now_s, _, what, about = heappop(self._events)
            if what == "arrive":
                self._arrive(about, now_s)
            elif what == "step":
                self._step(about, now_s, then)
            elif what == "gauges":
                self._seen_replicas()
                self.at(now_s + GAUGES_S, what)
            else:
                self._share()
                self.at(now_s + COUNTS_S, what)

    def _arrive(self, job: Job, now_s: float) -> None:
        number = self.choose(self, job)
        if job.place is None:  # chosen otherwise: counted all the same, for least loaded
            chosen = Chosen(f"r{number}", "", NO_WORK._replace(calls=1), NO_CHAIN, 0)
            job.place = OpenPlace(self.gateways[job.gateway], chosen)
        engine = self.engines[number]
        engine.waiting.append(job)
        if not engine.is_stepping:
            engine.is_stepping = True
            self.at(now_s, "step", engine)

    def _step(self, engine: Engine, now_s: float, then: Callable[[Job, float], Any]) -> None:
        took_s, begun, ended = engine.step()
        end_s = now_s + took_s
        for job in begun:
            job.first_s = end_s
            assert job.place is not None
            job.place.computed(Seen(job))  # type: ignore[arg-type]
        for job in ended:
            assert job.place is not None
            job.place.close()
            self.ended.append(job)
            if (follows := then(job, end_s)) is not None:
                self.at(follows.arrived_s, "arrive", follows)
        engine.is_stepping = bool(engine.open)
        if engine.is_stepping:
            self.at(end_s, "step", engine)

    def _seen_replicas(self) -> None:
        warm = ReplicaState.WARM
        replicas = tuple(
            Replica(f"r{n}", "", warm, 0, len(e.staging + e.decoding), len(e.waiting), e.gauges())
            for n, e in enumerate(self.engines)
        )
        self.state = PoolState(POOL, replicas, 0)

    def _share(self) -> None:
        told = [dict(each.outstanding.by_replica) for each in self.gateways]
        for number, each in enumerate(self.gateways):
            each.look()
            each.others = together(told[:number] + told[number + 1 :])
            for other in self.gateways:
                for computed in each.untold if other is not each else ():
                    other.hear(computed)
            each.untold.clear()

    def in_flight(self, number: int) -> int:
        return sum(each.outstanding.at(f"r{number}").calls for each in self.gateways)


def ours(run: Run, job: Job) -> int:
    prompt = array("I", job.tokens).tobytes()
    hint = f"c{job.owner}" if run.hints else ""
    beginning = Beginning(chain_of(prompt, "org"), hint, "org")
    placement = run.gateways[job.gateway]
    chosen = placement.choose(run.state, _call(job), beginning, ())
    assert chosen is not None
    job.place = OpenPlace(placement, chosen)
    return int(chosen.replica_id[1:])


def _call(job: Job) -> Call:
    return Call(
        *("req", "org", "proj", "key", "m", ("m",), Tier.DEFAULT, True, {"m": len(job.tokens)}),
        output_tokens_max=OUTPUT_MAX,
        arrived_s=0.0,
        deadline_s=60.0,
    )


def at_random(run: Run, job: Job) -> int:
    return run.rng.randrange(len(run.engines))


def least_loaded(run: Run, job: Job) -> int:
    """By calls in flight, of all replicas, known to the call."""
    return min(range(len(run.engines)), key=lambda n: (run.in_flight(n), run.rng.random()))


def conversations(run: Run) -> dict[str, Any]:
    rng, gateways = Random(7), len(run.gateways)
    fresh = count(1000)
    common = [next(fresh) for _ in range(COMMON)]

    def said(low: int, high: int) -> list[int]:
        return [next(fresh) for _ in range(rng.randint(low, high))]

    def follow(job: Job, now_s: float) -> Job | None:
        if job.turn + 1 == TURNS:
            return None
        tokens = job.tokens + said(job.output, job.output) + said(*ASKED)
        when_s = now_s + rng.expovariate(1 / THINK_S)
        turn = job.turn + 1
        return Job(tokens, _length(rng), when_s, job.owner, turn, rng.randrange(gateways))

    for number in range(CONVERSATIONS):
        when_s = rng.uniform(0, THINK_S)
        first = Job(common + said(*ASKED), _length(rng), when_s, number)
        run.at(when_s, "arrive", first)
    run.go(CONVERSATIONS * TURNS, follow)
    return _figures(run)


def strangers(run: Run, seed: int) -> dict[str, Any]:
    rng, when_s, fresh = Random(seed), 0.0, count(1000)
    for number in range(STRANGERS):
        when_s += rng.expovariate(RATE)
        tokens = [next(fresh) for _ in range(rng.randint(100, 1200))]
        run.at(when_s, "arrive", Job(tokens, _length(rng), when_s, number))
    run.go(STRANGERS, lambda job, now_s: None)
    return _figures(run)


def _length(rng: Random) -> int:
    return max(1, min(OUTPUT_MAX, round(rng.lognormvariate(4.2, 0.6))))


def _figures(run: Run) -> dict[str, Any]:
    waits = sorted((job.first_s - job.arrived_s) * 1000 for job in run.ended)
    work = [engine.work_s for engine in run.engines]
    assert all(not each.outstanding.by_replica for each in run.gateways), "all counters are zero"
    return {
        "cached_share": sum(j.cached for j in run.ended) / sum(len(j.tokens) for j in run.ended),
        "ttft_ms_p50": median(waits),
        "ttft_ms_p99": waits[int(len(waits) * 0.99)],
        "busiest_of_mean": max(work) * len(work) / sum(work),
    }


WAYS: dict[str, Choose] = {"ours": ours, "random": at_random, "least loaded": least_loaded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "replica_choice.jsonl")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = [row for seed in range(options.rounds) for row in _round(seed)]
    for tokens, replicas in ((64, 1), (64, 3), (2_000, 3), (16_000, 3), (2_000, 16)):
        row = {"run": f"CPU, prompt of {tokens} tokens, {replicas} replicas", "seed": 0}
        for hashed in (False, True):
            took_us = choice_us(tokens, replicas, hashed=hashed)
            row["us_with_hashing" if hashed else "us"] = round(took_us, 1)
        rows.append(row)
    options.out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in dict.fromkeys(row["run"] for row in rows):
        of_run = [row for row in rows if row["run"] == name]
        keys = [key for key in of_run[0] if key not in ("run", "seed")]
        medians = {key: round(median(row[key] for row in of_run), 3) for key in keys}
        print(f"{name:44} {json.dumps(medians)}", flush=True)


def choice_us(prompt_tokens: int, replicas: int, *, hashed: bool) -> float:
    """CPU of a choice in microseconds: the best of five, each of a thousand."""
    run = Run(ours, replicas=replicas, cache_tokens=131_072, seed=1)
    job = Job(list(range(prompt_tokens)), 50, 0.0, 0)
    prompt = array("I", job.tokens).tobytes()
    known = chain_of(prompt, "org")
    for number in range(replicas):
        run.gateways[0].prefixes.remember(f"r{number}", known)
    call = _call(job)

    def one() -> None:
        chain = chain_of(prompt, "org") if hashed else known
        run.gateways[0].choose(run.state, call, Beginning(chain, "", "org"), ())

    return min(repeat(one, number=1000, repeat=5)) * 1000


def _round(seed: int) -> Sequence[dict[str, Any]]:
    rows = []
    for cache in (8_192, 131_072):
        one = Run(at_random, replicas=1, cache_tokens=cache, seed=seed)
        rows.append({"run": f"conversations, cache {cache}, one replica"} | conversations(one))
        for name, choose in WAYS.items():
            three = Run(choose, replicas=3, cache_tokens=cache, seed=seed)
            rows.append({"run": f"conversations, cache {cache}, {name}"} | conversations(three))
        for hints in (False, True):
            two = Run(ours, replicas=3, cache_tokens=cache, seed=seed, gateways=2)
            two.hints = hints
            words = "ours, two gateways" + (", sessions" if hints else "")
            rows.append({"run": f"conversations, cache {cache}, {words}"} | conversations(two))
    for name, choose in WAYS.items():
        alone = Run(choose, replicas=3, cache_tokens=8_192, seed=seed)
        rows.append({"run": f"strangers, {name}"} | strangers(alone, seed))
    return [row | {"seed": seed} for row in rows]


if __name__ == "__main__":
    main()
