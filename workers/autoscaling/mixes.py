"""How many replicas each pool of a mix has: base on reserved capacity, then spot with spares over
zones, and on-demand for as long as spot is not ready. Pure.

That is SpotHedge (Mao et al., SkyServe, EuroSys 2025, arXiv 2411.01438), counted in READY spot:
what is being launched bridges nothing. On-demand replicas come at once. They go one by one, after
spot has been ready for a while. So a market that gives and takes every minute moves none of them.
Pools outside of a mix decide by themselves (`scale`). What is decided stands in the terms.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from workers.autoscaling.zones import Market, MixPool, Zones, spread

WORTH: Final = 0.85
"""Spot that costs more of an on-demand replica than this is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixKnobs:
    """`stable_ms`: how long spot must have been ready before an on-demand replica goes.
    `retry_ms`: how long a zone that refused a launch or lost a replica is set aside."""

    base: int
    spare: int
    stable_ms: int
    retry_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MixView:
    """`need`: the replicas that the calls of all pools need together. `start_s`: what a start
    takes."""

    at_ms: int
    need: int
    start_s: float
    pools: tuple[MixPool, ...]


@dataclass(frozen=True, slots=True)
class MixMemory:
    """`bridge`: replicas in place of spot. `fewer_since_ms`: since when fewer would have done."""

    shares: Mapping[str, int] = field(default_factory=dict)
    bridge: int = 0
    fewer_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one pool of a mix is to have, with the numbers that led to it. Those from `need` to
    `bridge` are of the mix. `cost_ratio`: what spot costs of on-demand with its spares and
    losses."""

    mix: str
    share: int
    why: str
    need: int
    base: int
    spare: int
    spot_target: int
    spot_ready: int
    bridge_needed: int
    bridge: int
    cost_ratio: float | None = None


MixStep = tuple[MixMemory, Mapping[str, Share]]


def decide_mix(name: str, view: MixView, memory: MixMemory, knobs: MixKnobs) -> MixStep:
    """The share of each pool. Call it once a round, in order of `at_ms`."""
    reserved = _of(view, Market.RESERVED)
    on_demand = _of(view, Market.ON_DEMAND)
    base = _filled(reserved, knobs.base)
    rest = max(0, view.need - sum(base.values()))
    ratios = _cost_ratios(view, rest, knobs.spare)
    worthy = [p for p in _of(view, Market.SPOT) if ratios.get(p.name, 0.0) <= WORTH]
    room = sum(pool.most for pool in worthy)
    spot_target = min(rest + knobs.spare, room) if rest and worthy else 0
    before = {pool.name: memory.shares.get(pool.name, pool.target) for pool in worthy}
    zones = spread(worthy, before, spot_target, view.at_ms, knobs.retry_ms)
    ready = sum(min(pool.ready, zones.shares[pool.name]) for pool in worthy)
    absent = sum(max(0, base[pool.name] - pool.ready) for pool in reserved if pool.barred)
    needed = min(rest, max(spot_target, rest) - min(ready, max(spot_target, rest))) + absent
    bridge, since_ms = _bridge(view.at_ms, needed, rest + absent, memory, knobs)
    bridges = _bridges(reserved, base, on_demand, bridge)
    leaving = _leaving_spot(view, worthy, rest, ready, bridges)
    shares = base | bridges | zones.shares | leaving
    terms = Share(
        mix=name,
        share=0,
        why="",
        need=view.need,
        base=sum(base.values()),
        spare=knobs.spare,
        spot_target=spot_target,
        spot_ready=ready,
        bridge_needed=needed,
        bridge=bridge,
    )
    whys = _Words(view, base, zones, ratios, terms, since_ms, knobs)
    return MixMemory(shares, bridge, since_ms), {
        pool.name: _share(terms, pool, shares[pool.name], ratios, whys) for pool in view.pools
    }


def _share(
    terms: Share, pool: MixPool, share: int, ratios: Mapping[str, float], whys: "_Words"
) -> Share:
    ratio = ratios.get(pool.name)
    return replace(
        terms,
        share=share,
        why=whys.of(pool, share),
        cost_ratio=None if ratio is None else round(ratio, 4),
    )


def _of(view: MixView, market: Market) -> list[MixPool]:
    """The pools of a market: those that can start, then the cheapest first."""
    pools = [pool for pool in view.pools if pool.market is market]
    return sorted(pools, key=lambda pool: (pool.barred, pool.cost, pool.name))


def _filled(pools: Sequence[MixPool], count: int) -> dict[str, int]:
    """So many replicas over pools in their order, none below its least or above its most."""
    shares = {pool.name: pool.least for pool in pools}
    left = count - sum(shares.values())
    for pool in pools:
        more = max(0, min(left, pool.most - pool.least))
        shares[pool.name] += more
        left -= more
    return shares


def _cost_ratios(view: MixView, rest: int, spare: int) -> dict[str, float]:
    """What a replica on spot costs of one on demand: with its part of the spares, and with what its
    losses cost, each of them a start and an on-demand replica for as long. None where there is no
    on-demand pool to compare with."""
    costs = [pool.cost for pool in view.pools if pool.market is Market.ON_DEMAND]
    if not costs or not min(costs):
        return {}
    on_demand = min(costs)
    spares = 1 + spare / max(1, rest)
    return {
        pool.name: (pool.cost * spares + pool.losses_per_s * view.start_s * (pool.cost + on_demand))
        / on_demand
        for pool in view.pools
        if pool.market is Market.SPOT
    }


def _bridge(
    at_ms: int, needed: int, most: int, memory: MixMemory, knobs: MixKnobs
) -> tuple[int, int | None]:
    """More at once; fewer one by one, each after less was needed for a stable time. When the calls
    need fewer replicas, no time is stable."""
    before = min(memory.bridge, most)
    if needed >= before:
        return needed, None
    since_ms = at_ms if memory.fewer_since_ms is None else memory.fewer_since_ms
    if at_ms - since_ms < knobs.stable_ms:
        return before, since_ms
    return before - 1, at_ms


def _bridges(
    reserved: Sequence[MixPool],
    base: Mapping[str, int],
    on_demand: Sequence[MixPool],
    bridge: int,
) -> dict[str, int]:
    """What bridges: room on reserved capacity, which is paid for, then on-demand."""
    shares = dict(base)
    left = bridge
    for pool in reserved:
        more = 0 if pool.barred else min(left, pool.most - shares[pool.name])
        shares[pool.name] += more
        left -= more
    return shares | _filled(on_demand, left)


def _leaving_spot(
    view: MixView,
    worthy: Sequence[MixPool],
    rest: int,
    ready: int,
    bridges: Mapping[str, int],
) -> dict[str, int]:
    """Spot that is not worth its cost stays until others are ready in its place."""
    names = {pool.name for pool in worthy}
    there = sum(min(p.ready, bridges[p.name]) for p in _of(view, Market.ON_DEMAND))
    short = max(0, rest - ready - there)
    shares = {}
    for pool in _of(view, Market.SPOT):
        if pool.name not in names:
            stays = min(pool.ready, short)
            short -= stays
            shares[pool.name] = max(pool.least, min(stays, pool.most))
    return shares


@dataclass(frozen=True, slots=True)
class _Words:
    """Why a pool has its share, for people."""

    view: MixView
    base: Mapping[str, int]
    zones: Zones
    ratios: Mapping[str, float]
    terms: Share
    since_ms: int | None
    knobs: MixKnobs

    def of(self, pool: MixPool, share: int) -> str:
        if pool.market is Market.SPOT:
            return self._of_spot(pool, share)
        bridging = share - self.base.get(pool.name, 0)
        words = [f"{self.base[pool.name]} of the base"] if self.base.get(pool.name) else []
        if bridging:
            words.append(f"{bridging} in place of spot")
        if self.since_ms is not None and bridging:
            left_ms = self.since_ms + self.knobs.stable_ms - self.view.at_ms
            words.append(f"the next one goes in {left_ms / 1000:.0f} s")
        return ", ".join(words) or "spot is ready"

    def _of_spot(self, pool: MixPool, share: int) -> str:
        ratio = self.ratios.get(pool.name, 0.0)
        if ratio > WORTH:
            return f"spot costs {ratio:.2f} of on-demand, more than {WORTH}"
        if pool.barred:
            return f"{pool.zone} cannot start any now"
        if pool.name in self.zones.aside and pool.trouble_ms is not None:
            left_ms = pool.trouble_ms + self.knobs.retry_ms - self.view.at_ms
            words = f"{pool.zone} is set aside for {left_ms / 1000:.0f} s"
            return f"{words}, and tried as fewer than two are left" if share > pool.ready else words
        return f"{share} of {self.terms.spot_target} on spot"
