"""Which zones spot replicas are in. Pure.

The next one goes to the cheapest zone that is active and not in use, else to the cheapest that is
active, and no zone has more than its share. A zone that refused a launch or lost a replica is set
aside for a while: its replicas stay, and none is launched there. When fewer than two zones are
active, those that were set aside are tried again, after the active ones. What runs is never moved
to a cheaper zone: a start costs more than that saves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

ACTIVE_LEAST = 2


class Market(StrEnum):
    """The classes of pools that have replicas of ours."""

    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class MixPool:
    """One pool of a mix at an instant. `ready`: replicas that take calls and are not leaving.
    `target`: what it was told to have. `trouble_ms`: when its zone last refused or lost one.
    `barred`: it cannot start any now. `cost`: of a second of a replica, in any unit."""

    name: str
    market: Market
    zone: str
    least: int
    most: int
    cost: float
    ready: int = 0
    target: int = 0
    trouble_ms: int | None = None
    barred: bool = False
    losses_per_s: float = 0.0

    def is_aside(self, at_ms: int, retry_ms: int) -> bool:
        return self.barred or (self.trouble_ms is not None and at_ms - self.trouble_ms < retry_ms)


@dataclass(frozen=True, slots=True)
class Zones:
    """The share of each pool, and the pools whose zones are set aside."""

    shares: dict[str, int] = field(default_factory=dict)
    aside: frozenset[str] = frozenset()


NO_ZONES = Zones()


def spread(
    pools: Sequence[MixPool], before: Mapping[str, int], target: int, at_ms: int, retry_ms: int
) -> Zones:
    """So many replicas over the zones, or as many as there is room for. `before`: the shares that
    they had."""
    if not pools:
        return NO_ZONES
    troubled = {pool.zone for pool in pools if pool.is_aside(at_ms, retry_ms)}
    active = {pool.zone for pool in pools} - troubled
    barred = {pool.zone for pool in pools if pool.barred}
    tried = active if len(active) >= ACTIVE_LEAST else {p.zone for p in pools} - barred
    shares = {pool.name: _kept(pool, before[pool.name], pool.zone in active) for pool in pools}
    most_in_zone = ceil(target / max(1, len(active or tried))) + 1
    while sum(shares.values()) > target:
        over = [pool for pool in pools if shares[pool.name] > pool.least]
        if not over:
            break
        first = max(over, key=lambda pool: _leaves_first(pool, pools, shares, active, most_in_zone))
        shares[first.name] -= 1
    while sum(shares.values()) < target:
        free = [
            pool
            for pool in pools
            if pool.zone in tried
            and shares[pool.name] < pool.most
            and _in_zone(pool.zone, pools, shares) < most_in_zone
        ]
        if not free:
            break
        best = min(free, key=lambda pool: _comes_first(pool, pools, shares, active))
        shares[best.name] += 1
    return Zones(shares, frozenset(pool.name for pool in pools if pool.zone in troubled))


def _kept(pool: MixPool, share: int, is_active: bool) -> int:
    """What stays of the share it had. Where a zone is set aside nothing is launched any more."""
    share = share if is_active else min(share, pool.ready)
    return max(pool.least, min(share, pool.most))


def _comes_first(
    pool: MixPool, pools: Sequence[MixPool], shares: Mapping[str, int], active: set[str]
) -> tuple[bool, int, bool, float, str]:
    is_aside = pool.zone not in active
    trouble_ms = (pool.trouble_ms or 0) if is_aside else 0
    is_used = _in_zone(pool.zone, pools, shares) > 0
    return (is_aside, trouble_ms, is_used, pool.cost, pool.name)


def _leaves_first(
    pool: MixPool,
    pools: Sequence[MixPool],
    shares: Mapping[str, int],
    active: set[str],
    most_in_zone: int,
) -> tuple[bool, bool, bool, float, str]:
    """One that is not ready, then one of a zone that is set aside or has more than its share, then
    the dearest."""
    return (
        shares[pool.name] > pool.ready,
        pool.zone not in active,
        _in_zone(pool.zone, pools, shares) > most_in_zone,
        pool.cost,
        pool.name,
    )


def _in_zone(zone: str, pools: Sequence[MixPool], shares: Mapping[str, int]) -> int:
    return sum(shares[pool.name] for pool in pools if pool.zone == zone)
