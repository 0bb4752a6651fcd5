"""One round of making the cluster follow the catalog: look, decide, write.

Every write goes to the cluster's one writer. It remembers only what the next decision needs.
Everything else is read again each round, so a restart adopts the cluster as it is. An unreachable
Ray changes nothing: the replicas that still answer stay published.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import aiohttp
import msgspec

from workers.autoscaling.demand import Demand, Due, PoolOrder, TierQueue
from workers.autoscaling.generations import SuccessionDecision
from workers.autoscaling.keep_alive import sparse
from workers.autoscaling.recoveries import LostPart
from workers.autoscaling.types import Phase, ScaleDecision
from workers.catalog import Catalog, Pool
from workers.controller.applications import Applications
from workers.controller.fleet_publisher import Fleet, FleetPublisher, PoolEntry
from workers.controller.intentions import Intentions, PoolApps
from workers.controller.lifetimes import Lives, prices_of, seen_in
from workers.controller.losses import RAY, Losses
from workers.controller.lost_replicas import LostReplicas
from workers.controller.mixes import Mixes
from workers.controller.nodes import NodeWatch
from workers.controller.paces import Paces
from workers.controller.replica_api import ReplicaApi
from workers.controller.round.demands import Demands
from workers.controller.round.instructions import instruct
from workers.controller.round.prewarming import Prewarming
from workers.controller.round.replica_entries import ReplicaEntries, Times
from workers.controller.round.starts import Starts
from workers.controller.round.upkeep import Spares, spares_by_type, upkeep
from workers.controller.seasons import Seasons
from workers.controller.sighting import Observer, Sighting
from workers.controller.weights import WeightsWatch
from workers.existing.applications import own_details
from workers.ray.file import RayFile, read_ray_file
from workers.ray.serve_api import (
    RayApi,
    RayRefused,
    RayUnavailable,
    ServeDetails,
)
from workers.ray.serve_apps import DEPLOYMENT, app_name, graceful_shutdown_s, older_apps
from workers.settings import WorkersSettings
from workers.writer.controller_writes import ControllerWrites
from workers.writer.writes import Leader, SetReplicas

log = logging.getLogger(__name__)

NOBODY_DUE: Mapping[str, tuple[Due, ...]] = MappingProxyType({})
NO_ORDERS: Mapping[str, PoolOrder] = MappingProxyType({})
NO_QUEUES: Mapping[str, tuple[TierQueue, ...]] = MappingProxyType({})


class Reconciler:
    """Makes rounds; `session` is the caller's."""

    def __init__(
        self,
        settings: WorkersSettings,
        *,
        session: aiohttp.ClientSession,
        publisher: FleetPublisher,
        nodes: NodeWatch,
        weights: WeightsWatch,
        lives: Lives,
        seasons: Seasons,
        leader: Callable[[], Leader | None],
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._knobs = settings.controller
        self._session = session
        self._publisher = publisher
        self._nodes = nodes
        self._weights = weights
        self._lives = lives
        self._seasons = seasons
        self._writes = ControllerWrites(settings, session, leader)
        self._now_ms = now_ms
        self._replicas = ReplicaApi(
            session,
            secret=settings.worker_secret.get_secret_value(),
            timeout_s=self._knobs.stats_timeout_s,
        )
        stale_ms = int(self._knobs.stats_stale_s * 1000)
        self._observer = Observer(self._replicas, now_ms=now_ms, stale_ms=stale_ms)
        self._entries = ReplicaEntries(
            self._observer.stats_of, nodes, weights, has_place=not settings.nodes
        )
        self._details = ServeDetails()
        self._intentions = Intentions(settings.controller)
        self._applications = Applications(settings, self._writes, self._intentions)
        self._losses = Losses()
        self._spares = Spares()
        self._lost = LostReplicas()
        self._starts = Starts()
        self._prewarming = Prewarming(settings.nodes)
        self._paces = Paces()
        self._mixes = Mixes(
            settings.mixes, settings.controller, self._intentions, nodes, self._lost
        )
        self._demands = Demands(self._paces, self._intentions, self._seasons, self._knobs)
        self._place: RayFile | None = None
        self._asking: asyncio.Task[ServeDetails] | None = None
        self._done: frozenset[str] = frozenset()
        self._trouble = ""
        self.moving = False  # a count is on its way, so look again soon

    def begin(self, leader: Leader, last: Fleet | None) -> None:
        """Start leading: forget the intentions, and take over the measured times."""
        self._writes.begin(leader)
        self._intentions.begin(last)
        self._paces.begin(last)
        self._lives.begin()
        self._losses.begin(last)
        self._lost.begin(last)
        self._starts.begin(last)
        self._prewarming.begin()
        self._mixes.begin(last)
        self._done = frozenset()

    def is_cold(self, pool: str) -> bool:
        """Whether a waiting caller would start the pool now."""
        return self._intentions.is_cold(pool)

    async def run_once(
        self,
        catalog: Catalog,
        waiting: Mapping[str, int],
        due: Mapping[str, tuple[Due, ...]] = NOBODY_DUE,
        orders: Mapping[str, PoolOrder] = NO_ORDERS,
        queues: Mapping[str, tuple[TierQueue, ...]] = NO_QUEUES,
    ) -> None:
        """Do one round. An error of Ray is logged, and tried again next time. Raises
        redis.RedisError."""
        before = self._place
        is_needed = any(catalog.model_of(pool).checksum for pool in catalog.own_pools)
        await self._weights.look(is_needed=is_needed, at_ms=self._now_ms())
        ray = await self._refresh(catalog)
        reason = self._gone(before, ray)
        pools = [self._apps(pool, catalog) for pool in catalog.own_pools]
        names = [name for apps in pools for name in apps.names]
        await self._nodes.drain(self._writes, self._now_ms())
        self._nodes.look(self._place)
        sightings = await self._observer.look(names, self._details)
        sightings = self._applications.barred(sightings)
        sightings |= {
            name: self._weights.noted(
                self._nodes.barred(apps.pool, sightings[name], self._now_ms())
            )
            for apps in pools
            for name in apps.names
        }
        demands: Mapping[str, Demand] = {
            apps.pool.name: self._demand(
                *(apps, sightings),
                *(waiting.get(apps.pool.name, 0), due.get(apps.pool.name, ())),
                queues.get(apps.pool.name, ()),
                orders.get(apps.pool.name),
            )
            for apps in pools
        }
        demands = self._mixes.with_shares(pools, sightings, waiting, demands, self._now_ms())
        decisions = {
            name: self._intentions.decide(apps, sightings, waiting.get(name, 0), demands[name])
            for apps in pools
            for name in [apps.pool.name]
        }
        self._intentions.keep_only(pools)
        self.moving = any(_is_moving(sightings, d) for d in decisions.values())
        if not self._writes.leads:
            return  # another leads by now; looking took too long
        self._done = frozenset[str]().union(*(d.done for d in decisions.values()))
        if ray is not None:
            counts = [(apps.pool, _count(decisions[apps.pool.name])) for apps in pools]
            await self._prewarming.ask(self._writes, self._place, counts)
            await self._writes.do_all(_counts(sightings, decisions.values()))
        at_ms = self._now_ms()
        self._losses.note(RAY, has_one=ray is not None, is_wanted=True, gone=reason, at_ms=at_ms)
        entries = [
            self._with_loss(
                self._entry(apps, sightings, decisions[apps.pool.name], waiting), reason, at_ms
            )
            for apps in pools
        ]
        recoveries = self._losses.took
        nodes = self._nodes.entries(self._details, self._weights.held_by)
        await self._spares.count(self._place, self._nodes.all, at_ms)
        await self._publisher.publish(
            tuple(entries),
            at_ms=at_ms,
            recoveries=recoveries,
            nodes=nodes,
            spares=spares_by_type(self._spares.counts, nodes),
            epoch=self._writes.epoch,
        )
        if ray is not None:  # else what is known may be long past
            replicas = seen_in(
                self._details,
                self._observer.stats_of,
                asleep_share=self._knobs.sleep_cost_share,
            )
            at_us = self._now_ms() * 1000
            prices = prices_of(catalog, at_us)
            replicas += upkeep(
                *(replicas, prices),
                nodes=nodes,
                types=self._settings.nodes,
                spares=self._spares.counts,
                pools=catalog.own_pools,
                life="" if self._place is None else str(self._place.session.started_s),
                at_us=at_us,
            )
            lives = await self._lives.note(replicas, prices, at_us=at_us)
            self._lost.note(*lives, at_us=at_us)
        await self._seasons.save()
        await instruct(
            self._replicas,
            [(sightings[n], decisions[apps.pool.name]) for apps in pools for n in apps.names],
        )

    def _demand(
        self,
        apps: PoolApps,
        sightings: Mapping[str, Sighting],
        waiting: int,
        due: tuple[Due, ...],
        queues: tuple[TierQueue, ...],
        order: PoolOrder | None,
    ) -> Demand:
        """What is known of the pool's calls besides how many wait or run."""
        views = [sightings[name].view for name in apps.names]
        ids = [replica.id for view in views for replica in view.replicas]
        return self._demands.demand(
            apps.pool,
            {id: stats for id in ids if (stats := self._observer.stats_of(id)) is not None},
            due=due,
            queues=queues,
            order=order,
            load=waiting + sum(view.load for view in views),
            at_ms=self._now_ms(),
        )

    def _apps(self, pool: Pool, catalog: Catalog) -> PoolApps:
        name = app_name(pool, catalog, self._settings)
        return PoolApps(pool, name, older_apps(pool, name, self._details))

    def _gone(self, before: RayFile | None, ray: RayApi | None) -> LostPart | None:
        """What is away besides replicas, as far as it shows."""
        if self._place is None or (before is not None and before.life != self._place.life):
            return LostPart.CLUSTER
        return LostPart.RAY if ray is None else None

    async def _refresh(self, catalog: Catalog) -> RayApi | None:
        """Read Serve, and deploy the missing applications. None while Ray does not answer."""
        place = read_ray_file(self._settings.ray_file)
        if place != self._place:
            self._forget_question()
        self._place = place
        if place is None:
            self._note_ray("no cluster is running")
            return None
        await self._writes.claim(place)
        api = self._api(place)
        try:
            self._details = own_details(await self._ask(api), self._settings)
            await self._follow(api, catalog)
        except (RayUnavailable, RayRefused) as wrong:
            self._note_ray(str(wrong))
            return None
        self._note_ray("")
        return api

    async def _follow(self, api: RayApi, catalog: Catalog) -> None:
        pools = [self._apps(pool, catalog) for pool in catalog.own_pools]
        if await self._applications.follow(
            catalog, self._details, pools, done=self._done, holders=self._weights.holders
        ):
            self._details = own_details(await api.details(), self._settings)

    async def _ask(self, api: RayApi) -> ServeDetails:
        """Ask Ray for the state of Serve, and wait `ray_patience_s` at most, because the round has
        to look at replicas. A question without an answer by then stays open for the next round."""
        if self._asking is None:
            self._asking = asyncio.create_task(api.details())
        await asyncio.wait({self._asking}, timeout=self._knobs.ray_patience_s)
        if not self._asking.done():
            raise RayUnavailable("no answer yet")
        task, self._asking = self._asking, None
        return task.result()

    def _forget_question(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def leave(self) -> None:
        """Stop leading, and drop the open question."""
        self._forget_question()

    def _api(self, place: RayFile) -> RayApi:
        return RayApi(
            self._session,
            dashboard_url=place.dashboard_url,
            token=self._settings.ray_auth_token.get_secret_value(),
            timeout_s=self._knobs.ray_timeout_s,
        )

    def _entry(
        self,
        apps: PoolApps,
        sightings: Mapping[str, Sighting],
        decision: SuccessionDecision,
        waiting: Mapping[str, int],
    ) -> PoolEntry:
        scale = decision.scales[decision.serving]
        text = f"{scale.reason}: {scale.detail}"
        losses = self._lost.of(apps.pool.name)
        times = Times(
            self._intentions.cold_start_s(apps.pool),
            self._intentions.wake_s(apps.pool),
            graceful_shutdown_s(apps.pool, self._settings),
        )
        has_any = any(sightings[name].view.replicas for name in apps.names)
        elsewhere = self._mixes.blocked(apps.pool.name, has_any=has_any)
        replicas = tuple(
            entry
            for name in apps.names
            for entry in self._entries.of(sightings[name], decision.shown, times, self._now_ms())
        )
        return PoolEntry(
            name=apps.pool.name,
            target=scale.target,
            reason="; ".join(filter(None, (text, decision.detail))),
            cold_start_s=round(times.cold_s, 3),
            wake_s=round(times.wake_s, 3),
            waiting=waiting.get(apps.pool.name, 0),
            replicas=replicas,
            stages=self._starts.note(apps.pool.name, replicas, self._now_ms()),
            blocked=elsewhere if scale.quarantined_until_ms is None else scale.detail,
            lost=round(losses.lost, 4),
            warm_s=round(losses.warm_s, 1),
            terms=scale.terms,
            pace=self._paces.pace(apps.pool.name),
            gaps=sparse(self._paces.gaps(apps.pool.name)),
            mix=self._mixes.share(apps.pool.name),
        )

    def _with_loss(self, entry: PoolEntry, reason: LostPart | None, at_ms: int) -> PoolEntry:
        loss = self._losses.note(
            entry.name,
            has_one=any(replica.state == Phase.WARM for replica in entry.replicas),
            is_wanted=entry.target > 0,
            gone=reason,
            at_ms=at_ms,
        )
        ready_at_ms = self._losses.ready_at_ms(entry.name, entry.cold_start_s, at_ms)
        if loss is None:
            return msgspec.structs.replace(entry, ready_at_ms=ready_at_ms)
        return msgspec.structs.replace(
            entry,
            ready_at_ms=ready_at_ms,
            lost_since_ms=loss.since_ms,
            gone=loss.gone.name.lower(),
        )

    def _note_ray(self, trouble: str) -> None:
        """Log an error of Ray once, not in every round."""
        if trouble and trouble != self._trouble:
            log.warning("ray: %s", trouble)
        self._trouble = trouble


def _count(decision: SuccessionDecision) -> int:
    return sum(scale.count for scale in decision.scales.values())


def _counts(
    sightings: Mapping[str, Sighting], decisions: Iterable[SuccessionDecision]
) -> Iterator[SetReplicas]:
    """Absolute targets, only where the cluster holds another one."""
    for decision in decisions:
        for app, scale in decision.scales.items():
            if sightings[app].cluster_target not in (None, scale.count):
                yield SetReplicas(app, DEPLOYMENT, scale.count)


def _is_moving(sightings: Mapping[str, Sighting], decision: SuccessionDecision) -> bool:
    if decision.detail and len(decision.scales) == 1:
        return True  # replaced ones are on their way out
    return any(_is_scaling(sightings[app], scale) for app, scale in decision.scales.items())


def _is_scaling(sighting: Sighting, decision: ScaleDecision) -> bool:
    return (
        sighting.cluster_target != decision.count
        or len(sighting.view.replicas_in(Phase.WARM)) != decision.target
        or bool(decision.leaving)
    ) and decision.quarantined_until_ms is None
