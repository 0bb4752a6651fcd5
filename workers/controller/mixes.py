"""The mixes of `[[mixes]]`, followed from one round to the next: what their pools need together,
and the share of each.

Joins what is seen of pools and nodes with the pure decisions (`mix_need`, `mixes`). What is needed
and what bridges stand in the published fleet, and are taken over from there. The shares of before
are what the pools have.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from routing.economics.rates import Occurrences, losses_per_s
from workers.autoscaling.demand import Demand
from workers.autoscaling.mix_need import decide_need, knobs_together
from workers.autoscaling.mixes import MixKnobs, MixMemory, MixView, Share, decide_mix
from workers.autoscaling.types import Phase, PoolMemory, PoolView
from workers.autoscaling.zones import Market, MixPool
from workers.catalog import Pool
from workers.controller.fleet_publisher import Fleet
from workers.controller.intentions import Intentions, PoolApps, knobs_of
from workers.controller.lost_replicas import LostReplicas
from workers.controller.nodes import NodeWatch
from workers.controller.sighting import Sighting
from workers.mix import Mix
from workers.settings import ControllerSettings


@dataclass(slots=True)
class Mixes:
    """Call `with_shares` once a round, then `share`."""

    mixes: Sequence[Mix]
    knobs: ControllerSettings
    intentions: Intentions
    nodes: NodeWatch
    lost: LostReplicas
    _needs: dict[str, PoolMemory] = field(default_factory=dict)
    _memories: dict[str, MixMemory] = field(default_factory=dict)
    _shares: dict[str, Share] = field(default_factory=dict)
    _last: dict[str, Share] = field(default_factory=dict)

    def begin(self, last: Fleet | None) -> None:
        self._needs, self._memories, self._shares = {}, {}, {}
        pools = () if last is None else last.pools
        self._last = {pool.mix.mix: pool.mix for pool in pools if pool.mix is not None}

    def with_shares(
        self,
        pools: Sequence[PoolApps],
        sightings: Mapping[str, Sighting],
        waiting: Mapping[str, int],
        demands: Mapping[str, Demand],
        at_ms: int,
    ) -> Mapping[str, Demand]:
        """The demands, those of pools in a mix with the share that it gives them."""
        by_name = {apps.pool.name: apps for apps in pools}
        self._shares, counts = {}, dict[str, int]()
        for mix in self.mixes:
            members = [
                self._member(by_name[name], sightings, waiting.get(name, 0), demands[name])
                for name in mix.pools
                if name in by_name
            ]
            if members:
                self._decide(mix, members, at_ms)
            counts |= {each.pool.name: each.count(self._shares) for each in members}
        return {name: replace(demand, share=counts.get(name)) for name, demand in demands.items()}

    def share(self, pool: str) -> Share | None:
        return self._shares.get(pool)

    def blocked(self, pool: str, *, has_any: bool) -> str | None:
        """Why nobody is to wait for a pool: its mix runs on others. One that is cold as a whole
        starts for whoever waits for any pool of it."""
        share = self._shares.get(pool)
        if share is None or share.share or has_any or not share.need:
            return None
        return f"mix {share.mix} runs on its other pools: {share.why}"

    def _decide(self, mix: Mix, members: Sequence["_Member"], at_ms: int) -> None:
        start_s = max(self.intentions.cold_start_s(each.pool) for each in members)
        knobs = knobs_together([knobs_of(each.pool, self.knobs) for each in members], mix.base)
        last = self._last.get(mix.name)
        before = self._needs.get(mix.name) or PoolMemory(
            target=last.need if last else _begun(members),
            cold_start_ms=start_s * 1000,
        )
        views = [each.staying for each in members]
        self._needs[mix.name], need = decide_need(views, before, knobs, start_s)
        view = MixView(
            at_ms=at_ms,
            need=need.count,
            start_s=start_s,
            pools=tuple(self._pool(each, at_ms) for each in members),
        )
        memory = self._memories.get(mix.name) or MixMemory(bridge=last.bridge if last else 0)
        self._memories[mix.name], shares = decide_mix(mix.name, view, memory, _knobs(mix))
        self._shares |= shares

    def _member(
        self, apps: PoolApps, sightings: Mapping[str, Sighting], waiting: int, demand: Demand
    ) -> "_Member":
        app, memory = self.intentions.serving(apps)
        sighting = sightings[app]
        view = replace(sighting.view, waiting=waiting, demand=demand)
        away = {
            replica.id
            for replica in view.replicas
            if self.nodes.is_leaving(sighting.serve[replica.id].node_instance_id)
        }
        return _Member(apps.pool, view, memory, frozenset(away), sighting.cluster_target or 0)

    def _pool(self, member: "_Member", at_ms: int) -> MixPool:
        pool, memory = member.pool, member.memory
        until_ms = None if memory is None else memory.quarantined_until_ms
        losses = self.lost.of(pool.name)
        return MixPool(
            name=pool.name,
            market=Market(pool.capacity_class),
            zone=self.nodes.zone(pool),
            least=pool.min_replicas,
            most=max(pool.min_replicas, pool.max_replicas),
            cost=pool.cost_at(at_ms * 1000),
            ready=member.ready,
            target=member.target if memory is None else memory.target,
            trouble_ms=self.nodes.trouble_ms(pool),
            barred=until_ms is not None and until_ms > at_ms,
            losses_per_s=losses_per_s(Occurrences(losses.lost, losses.warm_s)),
        )


@dataclass(frozen=True, slots=True)
class _Member:
    """`away`: replicas whose nodes leave."""

    pool: Pool
    view: PoolView
    memory: PoolMemory | None
    away: frozenset[str]
    target: int

    def count(self, shares: Mapping[str, Share]) -> int:
        """The share of the pool, and its replicas whose nodes leave for as long as they are there:
        Serve may stop another one in their place."""
        share = shares[self.pool.name].share
        held = self.target if self.memory is None else self.memory.target
        return max(share, min(share + len(self.away), held))

    @property
    def staying(self) -> PoolView:
        """Without the replicas that the pool gives up."""
        return replace(
            self.view, replicas=tuple(r for r in self.view.replicas if r.id not in self._victims)
        )

    @property
    def ready(self) -> int:
        warm = {replica.id for replica in self.view.replicas_in(Phase.WARM)}
        return len(warm - self.away - self._victims)

    @property
    def _victims(self) -> frozenset[str]:
        drain = None if self.memory is None else self.memory.drain
        return frozenset() if drain is None else drain.victims


def _begun(members: Sequence[_Member]) -> int:
    """The need of a mix that nobody knows yet: what is there, or what its pools begin with."""
    return max(
        sum(each.ready for each in members), sum(each.pool.initial_replicas for each in members)
    )


def _knobs(mix: Mix) -> MixKnobs:
    return MixKnobs(
        base=mix.base,
        spare=mix.spare,
        stable_ms=round(mix.stable_s * 1000),
        retry_ms=round(mix.retry_s * 1000),
    )
