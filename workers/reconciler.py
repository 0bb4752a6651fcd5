"""One round of making the cluster follow the catalog: look, decide, write.

The one writer of replica counts. What is remembered is only what the next decision needs; all else
is read again each round, so that a restart re-adopts the cluster as it is. An unreachable Ray
changes nothing: the replicas that still answer stay published.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

import aiohttp

from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, ScaleDecision
from workers.catalog import Catalog, Pool
from workers.fleet_publisher import Fleet, FleetPublisher, PoolEntry, ReplicaEntry
from workers.ray_api import RayApi, RayRefused, RayUnavailable, ServeDetails
from workers.ray_file import RayFile, read_ray_file
from workers.replica_api import ReplicaApi, ReplicaGone, ReplicaSlow
from workers.serve_apps import DEPLOYMENT, app_name, serve_config
from workers.settings import ControllerSettings, WorkersSettings
from workers.sighting import Observer, Sighting

log = logging.getLogger(__name__)


class Reconciler:
    """Holds the memories of all pools; `session` is the caller's."""

    def __init__(
        self,
        settings: WorkersSettings,
        *,
        session: aiohttp.ClientSession,
        publisher: FleetPublisher,
        may_write: Callable[[], bool],
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._knobs = settings.controller
        self._session = session
        self._publisher = publisher
        self._may_write = may_write
        self._now_ms = now_ms
        self._replicas = ReplicaApi(
            session,
            secret=settings.worker_secret.get_secret_value(),
            timeout_s=self._knobs.stats_timeout_s,
        )
        stale_ms = int(self._knobs.stats_stale_s * 1000)
        self._observer = Observer(self._replicas, now_ms=now_ms, stale_ms=stale_ms)
        self._details = ServeDetails()
        self._memories: dict[str, PoolMemory] = {}
        self._trouble = ""
        self._reasons: dict[str, tuple[int, str]] = {}
        self._measured_s: dict[str, float] = {}
        self.moving = False  # a count is on its way, so look again soon

    def begin(self, last: Fleet | None) -> None:
        """Start leading: forget what was intended, and take over what was measured."""
        self._memories = {}
        self._reasons = {}
        if last is not None:
            self._measured_s |= {p.name: p.cold_start_s for p in last.pools}

    def is_cold(self, pool: str) -> bool:
        """Whether a waiting caller would start it now."""
        memory = self._memories.get(pool)
        return memory is None or (memory.target == 0 and memory.quarantined_until_ms is None)

    async def run_once(self, catalog: Catalog, waiting: Mapping[str, int]) -> None:
        """Raises redis.RedisError; what is wrong with Ray is logged, and tried again next time."""
        pools = catalog.own_pools
        ray = await self._refresh(catalog)
        sightings = await self._observer.look(pools, self._details, waiting)
        decisions = {p.name: self._decide(p, sightings[p.name]) for p in pools}
        self._memories = {n: m for n, m in self._memories.items() if n in decisions}
        self.moving = any(_is_moving(sightings[n], d) for n, d in decisions.items())
        if not self._may_write():
            return  # another leads by now; looking took too long
        if ray is not None:
            await self._write(ray, sightings, decisions)
        await self._publish(pools, sightings, decisions)
        await self._tell(sightings, decisions)

    async def _refresh(self, catalog: Catalog) -> RayApi | None:
        """Read Serve, and deploy what is not there; None while Ray cannot be asked."""
        place = read_ray_file(self._settings.ray_file)
        if place is None:
            self._note_ray("no cluster is running")
            return None
        api = self._api(place)
        try:
            self._details = await api.details()
            await self._deploy(api, place, catalog)
        except (RayUnavailable, RayRefused) as wrong:
            self._note_ray(str(wrong))
            return None
        self._note_ray("")
        return api

    def _api(self, place: RayFile) -> RayApi:
        return RayApi(
            self._session,
            dashboard_url=place.dashboard_url,
            token=self._settings.ray_auth_token.get_secret_value(),
            timeout_s=self._knobs.ray_timeout_s,
        )

    async def _deploy(self, api: RayApi, place: RayFile, catalog: Catalog) -> None:
        """One PUT for all pools, if there is a difference; then read Serve again."""
        for pool in catalog.own_pools:
            if app_name(pool.name) not in self._details.applications:
                self._begin_pool(pool)
        config = serve_config(
            catalog, self._details, self._settings, place=place, rebuild=self._must_rebuild(catalog)
        )
        if config is not None and self._may_write():
            log.info("deploying %s", [app["name"] for app in config["applications"]])
            await api.deploy(config)
            self._details = await api.details()

    def _begin_pool(self, pool: Pool) -> None:
        """A pool that the cluster does not know starts as the catalog says, or as it was before
        the cluster was lost."""
        known = self._memories.get(pool.name)
        target = pool.initial_replicas if known is None else known.target
        fresh = self._fresh(pool, target)
        if known is not None:
            fresh = replace(
                fresh,
                failures=known.failures,
                failure=known.failure,
                quarantined_until_ms=known.quarantined_until_ms,
            )
        self._memories[pool.name] = fresh

    def _must_rebuild(self, catalog: Catalog) -> bool:
        """Whether a pool is wanted now whose application Serve gave up on while building it."""
        wanted = {app_name(p.name) for p in catalog.own_pools if not self.is_cold(p.name)}
        return any(
            name in wanted and app.status == "DEPLOY_FAILED" and not app.deployments
            for name, app in self._details.applications.items()
        )

    def _decide(self, pool: Pool, sighting: Sighting) -> ScaleDecision:
        memory = self._memories.get(pool.name)
        if memory is None:
            target = sighting.cluster_target
            memory = self._fresh(pool, pool.initial_replicas if target is None else target)
        memory, decision = decide(sighting.view, memory, _knobs(pool, self._knobs))
        self._memories[pool.name] = memory
        self._note_decision(pool.name, decision)
        return decision

    def _fresh(self, pool: Pool, target: int) -> PoolMemory:
        cold_start_s = self._measured_s.get(pool.name, pool.cold_start_s)
        return PoolMemory(target=target, cold_start_ms=cold_start_s * 1000)

    async def _write(
        self,
        api: RayApi,
        sightings: Mapping[str, Sighting],
        decisions: Mapping[str, ScaleDecision],
    ) -> None:
        """Absolute targets, only where the cluster holds another; one pool's trouble is its own."""
        for name, decision in decisions.items():
            holds = sightings[name].cluster_target
            if holds is None or holds == decision.target:
                continue
            try:
                await api.scale(app_name(name), DEPLOYMENT, decision.target)
            except (RayUnavailable, RayRefused) as wrong:
                log.warning("pool %s: %s", name, wrong)

    async def _publish(
        self,
        pools: tuple[Pool, ...],
        sightings: Mapping[str, Sighting],
        decisions: Mapping[str, ScaleDecision],
    ) -> None:
        entries = tuple(self._entry(p.name, sightings[p.name], decisions[p.name]) for p in pools)
        await self._publisher.publish(entries, at_ms=self._now_ms())

    def _entry(self, name: str, sighting: Sighting, decision: ScaleDecision) -> PoolEntry:
        memory = self._memories[name]
        self._measured_s[name] = memory.cold_start_ms / 1000
        blocked = decision.detail if decision.quarantined_until_ms is not None else None
        return PoolEntry(
            name=name,
            target=decision.target,
            reason=f"{decision.reason}: {decision.detail}",
            cold_start_s=round(memory.cold_start_ms / 1000, 3),
            waiting=sighting.view.waiting,
            replicas=_replica_entries(sighting, decision),
            blocked=blocked,
        )

    async def _tell(
        self, sightings: Mapping[str, Sighting], decisions: Mapping[str, ScaleDecision]
    ) -> None:
        """Tell each replica that answers whether to take work, if it does otherwise now."""
        telling = [
            self._tell_one(sighting.addresses[replica.id], replica.id in decisions[name].refusing)
            for name, sighting in sightings.items()
            for replica in sighting.view.replicas
            if replica.phase is not Phase.STARTING
            and (replica.phase is Phase.DRAINING) != (replica.id in decisions[name].refusing)
        ]
        await asyncio.gather(*telling)

    async def _tell_one(self, address: str, draining: bool) -> None:
        try:
            await self._replicas.drain(address, draining=draining)
        except (ReplicaGone, ReplicaSlow) as deaf:
            log.warning("drain: %s", deaf)

    def _note_ray(self, trouble: str) -> None:
        """Log what is wrong with Ray once, not in every round."""
        if trouble and trouble != self._trouble:
            log.warning("ray: %s", trouble)
        self._trouble = trouble

    def _note_decision(self, name: str, decision: ScaleDecision) -> None:
        known = self._reasons.get(name)
        if known != (decision.target, decision.reason):
            log.info("pool %s: %d, %s: %s", name, *_said(decision))
        self._reasons[name] = (decision.target, decision.reason)


def _said(decision: ScaleDecision) -> tuple[int, str, str]:
    return decision.target, decision.reason, decision.detail


def _knobs(pool: Pool, settings: ControllerSettings) -> Knobs:
    return Knobs(
        min_replicas=pool.min_replicas,
        max_replicas=max(pool.max_replicas, pool.min_replicas),
        slots=pool.max_ongoing,
        idle_ms=int(pool.idle_s * 1000),
        up_delay_ms=int(settings.up_delay_s * 1000),
        settle_ms=int(settings.settle_s * 1000),
        drain_timeout_ms=int(settings.drain_timeout_s * 1000),
        start_timeout_ms=int(settings.start_timeout_s * 1000),
        start_attempts=settings.start_attempts,
        backoff_ms=int(settings.backoff_s * 1000),
        backoff_max_ms=int(settings.backoff_max_s * 1000),
        cold_start_weight=settings.cold_start_weight,
    )


def _is_moving(sighting: Sighting, decision: ScaleDecision) -> bool:
    return (
        sighting.cluster_target != decision.target
        or len(sighting.view.replicas_in(Phase.WARM)) != decision.target
        or bool(decision.leaving)
    ) and decision.quarantined_until_ms is None


def _replica_entries(sighting: Sighting, decision: ScaleDecision) -> tuple[ReplicaEntry, ...]:
    return tuple(
        ReplicaEntry(
            id=replica.id,
            address=sighting.addresses.get(replica.id, ""),
            state=Phase.DRAINING if replica.id in decision.leaving else replica.phase,
            since_ms=replica.since_ms,
            running=replica.running,
            queued=replica.queued,
        )
        for replica in sighting.view.replicas
    )
