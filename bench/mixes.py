"""Mixes over weeks of spot markets in virtual time:
`python -m bench.mixes TRACE TOKENS MARKETS`.

TRACE and TOKENS are the load, as `bench.demand` reads them. MARKETS is a folder of availability
traces, one file a zone (skypilot-org/spot-traces: `{"metadata": {"gap_seconds": 195}, "data": [1,
0]}`). They say whether a zone had any, so a zone that has some has as many as are wanted. Counts
are those of the product's own functions (`workers.autoscaling.mix_need` and `mixes`). Beside them
stand on-demand alone, spot alone, and a policy that knows the market ahead: for each of the
replicas that on-demand alone had, the cheapest way through the zones and on-demand, with every
start paid.

Prices are assigned: on-demand costs 1, zones 0.30, 0.31 and so on in the order of their names. A
zone that goes says so `--notice` seconds before (0: it does not), and gives none from then on. A
call whose replica goes is moved: it waits for a free slot, and goes on where it was. A call is in
time if its first token comes within `--ttft` seconds and no move of it takes longer. `--zones`
takes files whose names begin so. `--first-day` is where in the markets the load begins. `--out
FILE` keeps each run as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify
from itertools import pairwise
from pathlib import Path

import numpy as np

from bench.demand import DAY_S, Pool, Replica, run, servegen, sha256
from routing.economics.rates import Occurrences, losses_per_s
from workers.autoscaling.demand import IDLE, UNMEASURED, Demand, Pace, Worked, learned
from workers.autoscaling.mix_need import decide_need
from workers.autoscaling.mixes import MixKnobs, MixMemory, MixView, decide_mix
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, ReplicaView
from workers.autoscaling.zones import Market, MixPool
from workers.nodes.capacity import CapacityTrace, read_capacity

RENTED = "rented"
SPOT_COST, SPOT_COST_STEP = 0.30, 0.01


@dataclass(frozen=True)
class Zone:
    """A spot market. `first_s`: where in its trace the load begins."""

    name: str
    cost: float
    trace: CapacityTrace
    first_s: float

    def has_any(self, at_s: float) -> bool:
        return self.trace.at(self.first_s + at_s) > 0

    def step(self, at_s: float) -> int:
        """Of its trace: within one nothing changes."""
        return int((self.first_s + at_s) / self.trace.metadata.gap_seconds)


@dataclass
class Markets(Pool):
    """Replicas on demand and in zones that go and come. `cost`: of all, on-demand hours."""

    zones: Mapping[str, Zone] = field(default_factory=dict)
    notice_s: float = 0.0
    cost: float = 0.0
    trouble_s: dict[str, float] = field(default_factory=dict)
    lost: dict[str, int] = field(default_factory=dict)
    warm_s: dict[str, float] = field(default_factory=dict)
    spot_s: float = 0.0
    rented_s: float = 0.0
    before_s: float = 0.0
    steps: tuple[int, ...] = ()
    gone: frozenset[str] = frozenset()
    going: frozenset[str] = frozenset()

    def lost_calls(self) -> list[tuple[int, float]]:
        """Take away the replicas of zones that have none, and tell those that will."""
        passed_s, self.before_s = self.at_s - self.before_s, self.at_s
        for each in self.replicas:
            self.cost += passed_s * self.cost_of(each.pool)
            if each.pool in self.zones:
                self.spot_s += passed_s
                self.warm_s[each.pool] = self.warm_s.get(each.pool, 0.0) + passed_s
            else:
                self.rented_s += passed_s
        self._look()
        lost = [each for each in self.replicas if each.pool in self.gone]
        for each in self.replicas:
            if each.pool in self.going:
                each.leaving = each.refusing = True
                self.trouble_s[each.pool] = self.at_s
        if not lost:
            return []
        for each in lost:
            self.lost[each.pool] = self.lost.get(each.pool, 0) + 1
        numbers = {int(each.id) for each in lost}
        cut = [(call, end_s - self.at_s) for end_s, call, number in self.ends if number in numbers]
        self.ends = [end for end in self.ends if end[2] not in numbers]
        heapify(self.ends)
        self.replicas = [each for each in self.replicas if each.pool not in self.gone]
        return [(call, max(0.0, left_s)) for call, left_s in cut]

    def follow(self, target: Mapping[str, int]) -> None:  # type: ignore[override]
        for name, share in target.items():
            staying = [e for e in self.replicas if e.pool == name and not e.leaving]
            if len(staying) < share and not self.gives(name):
                self.trouble_s[name] = self.at_s
                continue
            for _ in range(share - len(staying)):
                self.start(name)
            staying.sort(key=lambda each: (each.running, -each.born_s))
            for each in staying[: max(0, len(staying) - share)]:
                each.leaving = True
        self.replicas = [e for e in self.replicas if e.running or not e.leaving or self._goes(e)]

    def gives(self, pool: str) -> bool:
        return pool not in self.gone and pool not in self.going

    def _look(self) -> None:
        later_s = self.at_s + self.notice_s
        steps = tuple(z.step(at_s) for z in self.zones.values() for at_s in (self.at_s, later_s))
        if steps == self.steps:
            return
        self.steps = steps
        zones = self.zones.values()
        self.gone = frozenset(zone.name for zone in zones if not zone.has_any(self.at_s))
        self.going = frozenset(zone.name for zone in zones if not zone.has_any(later_s))

    def cost_of(self, pool: str) -> float:
        return self.zones[pool].cost if pool in self.zones else 1.0

    def _goes(self, each: Replica) -> bool:
        """It is paid until it is taken away."""
        return each.refusing and each.pool in self.zones


class Mixed:
    """The product's own decisions on a mix of these markets."""

    def __init__(
        self, knobs: Knobs, mix: MixKnobs, start_s: float, zones: Sequence[Zone], rented: int
    ) -> None:
        self.knobs, self.mix, self.start_s = knobs, mix, start_s
        self.pools = [(zone.name, Market.SPOT, zone.cost) for zone in zones]
        self.pools += [(RENTED, Market.ON_DEMAND, 1.0)] * bool(rented)
        self.need = PoolMemory(target=0, cold_start_ms=start_s * 1000)
        self.memory = MixMemory()
        self.pace: Pace = UNMEASURED
        self.taken: Worked = IDLE
        self.needs: list[int] = []
        self.decided: tuple[object, ...] = ()
        self.shares: dict[str, int] = {}

    def targets(self, pool: Markets) -> dict[str, int]:
        self._measure(pool.worked)
        at_ms = round(pool.at_s * 1000)
        staying = [each for each in pool.replicas if not each.leaving]
        demand = Demand(begun=pool.begun, pace=self.pace)
        view = PoolView(
            at_ms, tuple(self._seen(e, pool) for e in staying), len(pool.queue), demand=demand
        )
        self.need, need = decide_need([view], self.need, self.knobs, self.start_s)
        self.needs.append(need.count)
        ready: dict[str, int] = {}
        for each in staying:
            if each.born_s + pool.start_s <= pool.at_s:
                ready[each.pool] = ready.get(each.pool, 0) + 1
        if not self._is_new(pool, need.count, ready):
            return self.shares
        mix = MixView(
            at_ms=at_ms,
            need=need.count,
            start_s=self.start_s,
            pools=tuple(self._pool(*each, pool, ready) for each in self.pools),
        )
        self.memory, shares = decide_mix("mix", mix, self.memory, self.mix)
        self.shares = {name: share.share for name, share in shares.items()}
        return self.shares

    def _is_new(self, pool: Markets, need: int, ready: Mapping[str, int]) -> bool:
        """Whether the mix could decide otherwise than the last time. Once a minute for what changes
        slowly."""
        retry_s = self.mix.retry_ms / 1000
        aside = [each for each in pool.trouble_s.items() if pool.at_s - each[1] < retry_s]
        now = (need, sorted(ready.items()), sorted(aside), int(pool.at_s / 60))
        if now == self.decided and self.memory.fewer_since_ms is None:
            return False
        self.decided = now
        return True

    def _pool(
        self, name: str, market: Market, cost: float, pool: Markets, ready: Mapping[str, int]
    ) -> MixPool:
        trouble_s = pool.trouble_s.get(name)
        counted = Occurrences(pool.lost.get(name, 0), pool.warm_s.get(name, 0.0))
        return MixPool(
            name=name,
            market=market,
            zone=name,
            least=0,
            most=self.knobs.max_replicas,
            cost=cost,
            ready=ready.get(name, 0),
            trouble_ms=None if trouble_s is None else round(trouble_s * 1000),
            losses_per_s=losses_per_s(counted) if market is Market.SPOT else 0.0,
        )

    def _measure(self, now: Worked) -> None:
        step = Worked(
            now.calls - self.taken.calls,
            now.tokens - self.taken.tokens,
            now.busy_s - self.taken.busy_s,
        )
        fresh = learned(self.pace, step)
        if fresh is not self.pace:
            self.pace, self.taken = fresh, now

    @staticmethod
    def _seen(each: Replica, pool: Markets) -> ReplicaView:
        since_ms = round(each.born_s * 1000)
        if each.born_s + pool.start_s > pool.at_s:
            return ReplicaView(each.id, Phase.STARTING, since_ms)
        idle_ms = 0 if each.running else round((pool.at_s - each.active_s) * 1000)
        return ReplicaView(each.id, Phase.WARM, since_ms, running=each.running, idle_ms=idle_ms)


def all_knowing(
    needs: Sequence[int], tick_s: float, zones: Sequence[Zone], start_s: float
) -> float:
    """The cheapest way to always have so many replicas ready, in on-demand hours: by dynamic
    programming for the first, the second replica and so on, over steps of the markets."""
    gap_s = zones[0].trace.metadata.gap_seconds
    steps = int(len(needs) * tick_s / gap_s)
    edges = (np.arange(steps + 1) * gap_s / tick_s).astype(int)
    counts = np.array(needs)
    costs = np.array([1.0, *(zone.cost for zone in zones)])
    there = np.array([[True, *(z.has_any((n + 0.5) * gap_s) for z in zones)] for n in range(steps)])
    total = 0.0
    for level in range(1, int(counts.max()) + 1):
        is_needed = counts >= level
        share = np.array([is_needed[a:b].mean() for a, b in pairwise(edges)])
        total += _cheapest(share * gap_s, there, costs, start_s)
    return total


def _cheapest(needed_s: np.ndarray, there: np.ndarray, costs: np.ndarray, start_s: float) -> float:
    """Of one replica: `needed_s` of each step, where there are some in each step."""
    begin = costs * start_s
    best, off = np.full(len(costs), np.inf), 0.0
    for seconds, has_any in zip(needed_s, there, strict=True):
        if seconds == 0:
            off, best = min(off, float(best.min())), np.full(len(costs), np.inf)
            continue
        come = min(off, float(best.min())) + begin
        best = np.minimum(best, come) + costs * seconds
        best[~has_any] = np.inf
        off = np.inf
    return float(min(off, best.min()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("tokens", type=Path)
    parser.add_argument("markets", type=Path)
    parser.add_argument("--zones", default="")
    parser.add_argument("--first-day", type=float, nargs="*", default=[0.0])
    parser.add_argument("--scale", type=float, default=400.0, help="rates are divided by it")
    parser.add_argument("--days", type=float, default=14.0)
    parser.add_argument("--tick", type=float, default=2.0)
    parser.add_argument("--slots", type=int, default=5)
    parser.add_argument("--start", type=float, default=30.0)
    parser.add_argument("--idle", type=float, default=3600.0)
    parser.add_argument("--ttft", type=float, default=3.0)
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--notice", type=float, default=120.0)
    parser.add_argument("--spare", type=int, default=0)
    parser.add_argument("--stable", type=float, default=30.0)
    parser.add_argument("--retry", type=float, default=300.0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    trace = servegen(args.trace, args.tokens, args.scale, args.days)
    files = sorted(args.markets.glob(f"{args.zones}*.json"))
    windows = [markets_from(files, first_day) for first_day in args.first_day]
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
    source = sha256([*sorted(args.trace.glob("chunk-*-trace.csv")), args.tokens, *files])

    def replay(name: str, zones: Sequence[Zone], spare: int, rented: int) -> list[int]:
        begun_s = time.monotonic()
        mix = MixKnobs(
            base=0,
            spare=spare,
            stable_ms=round(args.stable * 1000),
            retry_ms=round(args.retry * 1000),
        )
        pool = Markets(
            args.slots,
            args.start,
            zones={zone.name: zone for zone in zones},
            notice_s=args.notice,
        )
        policy = Mixed(knobs, mix, args.start, zones, rented)
        figures = run(trace, pool, policy, args.tick, args.ttft)
        line = {"policy": name, "cost": round(pool.cost / 3600, 2)} | figures
        line |= {"rented_hours": round(pool.rented_s / 3600, 2)}
        line |= {"spot_hours": round(pool.spot_s / 3600, 2), "lost": sum(pool.lost.values())}
        tell(line | {"took_s": round(time.monotonic() - begun_s, 1)}, zones)
        return policy.needs

    def tell(line: dict[str, object], zones: Sequence[Zone]) -> None:
        first_day = zones[0].first_s / DAY_S if zones else None
        line |= {"calls": len(trace.at_s), "zones": len(zones), "first_day": first_day}
        print(json.dumps(line), flush=True)
        if args.out:
            settings = {k: v for k, v in vars(args).items() if isinstance(v, float | int | str)}
            with args.out.open("a") as out:
                out.write(json.dumps(line | {"settings": settings, "sha256": source}) + "\n")

    def wants(name: str) -> bool:
        return not args.only or name in args.only

    if wants("on-demand") or wants("all-knowing"):
        needs = replay("on-demand alone", (), 0, 1)
        for zones in windows if wants("all-knowing") else ():
            cost = all_knowing(needs, args.tick, zones, args.start) / 3600
            tell({"policy": "all-knowing", "cost": round(cost, 2)}, zones)
    for zones in windows:
        if wants("sluice"):
            replay(f"sluice, spare {args.spare}", zones, args.spare, 1)
        if wants("spot"):
            replay(f"spot alone, spare {args.spare}", zones, args.spare, 0)


def markets_from(files: Sequence[Path], first_day: float) -> list[Zone]:
    return [
        Zone(
            path.stem,
            round(SPOT_COST + SPOT_COST_STEP * place, 2),
            read_capacity(path),
            first_day * DAY_S,
        )
        for place, path in enumerate(files)
    ]


if __name__ == "__main__":
    main()
