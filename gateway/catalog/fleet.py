"""The live fleet: the controller's last snapshot, joined with the catalog and our own load.

Reads Redis, never Ray. Counts this gateway's open attempts per replica (law 6: in-flight per
replica equals open attempts), and wakes whoever waits for a replica when the fleet changes.
"""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.catalog.catalog import Catalog
from gateway.moves.leaving import Leaving
from routing.economics.rates import (
    NOTHING_COUNTED,
    PRIOR_LOSSES_PER_S,
    Occurrences,
    in_steps,
    losses_per_s,
)
from routing.gauges import Gauges
from routing.types import (
    CapacityClass,
    Clock,
    FleetSnapshot,
    Pool,
    PoolState,
    Replica,
    ReplicaState,
)
from workers.autoscaling.demand import Terms
from workers.autoscaling.mixes import Share
from workers.autoscaling.stages import Stage, StageCount
from workers.controller.drains import LEAVING_KEY, deadlines_s
from workers.controller.fleet_publisher import NodeEntry
from workers.weights.reports import FetchProgress

log = logging.getLogger(__name__)

FLEET_KEY = "sluice:fleet"
FORGET_S = 60.0
"""So long after its end a replica that was leaving is remembered."""


def outside_id(pool_name: str) -> str:
    """The one place of an external pool."""
    return f"external:{pool_name}"


class PublishedReplica(msgspec.Struct):
    id: str
    address: str
    state: ReplicaState
    since_ms: int
    running: int = 0
    queued: int = 0
    gauges: Gauges | None = None
    pid: int | None = None
    stage: Stage | None = None
    eta_s: float | None = None
    node: str | None = None
    ends_ms: int | None = None
    fetch: FetchProgress | None = None

    @property
    def is_asleep(self) -> bool:
        return self.state is ReplicaState.SLEEPING


class PublishedPool(msgspec.Struct):
    name: str
    target: int
    reason: str = ""
    cold_start_s: float | None = None
    waiting: int = 0
    blocked: str | None = None
    ready_at_ms: int | None = None
    gone: str | None = None
    lost: float = 0.0
    warm_s: float = 0.0
    terms: Terms | None = None
    mix: Share | None = None
    wake_s: float | None = None
    stages: Mapping[Stage, StageCount] = {}
    replicas: tuple[PublishedReplica, ...] = ()

    @property
    def start_s(self) -> float | None:
        """How long the next replica takes to come: one that sleeps is woken, before any other is
        started."""
        sleeps = any(each.is_asleep or each.stage is Stage.WAKE for each in self.replicas)
        return self.wake_s if sleeps and self.wake_s else self.cold_start_s

    def ready_at_s(self, at_ms: int, is_stale: bool) -> float | None:
        """When the pool is expected to have a replica, as the controller predicted it at `at_ms`.
        Of several starts the first one to end stands, unless what was predicted is long past. A
        pool that lost its replicas waits for what else was lost, too."""
        if self.ready_at_ms is not None:
            return self.ready_at_ms / 1000
        left_s = [each.eta_s for each in self.replicas if each.eta_s is not None]
        return round(at_ms / 1000 + min(left_s), 1) if left_s and not is_stale else None

    @property
    def losses(self) -> Occurrences:
        return Occurrences(self.lost, self.warm_s)


class _Fleet(msgspec.Struct):
    seq: int
    at_ms: int
    pools: tuple[PublishedPool, ...] = ()
    nodes: tuple[NodeEntry, ...] = ()
    spares: Mapping[str, int] = {}
    controller: str = ""
    epoch: int = 0


class Leader(NamedTuple):
    """The controller that published last, and its epoch: each lead has a higher one."""

    id: str
    epoch: int


class FleetKeeper:
    """Keeps the snapshot current by polling every `poll_s` seconds."""

    def __init__(
        self,
        redis: Redis,
        catalog: Callable[[], Catalog],
        why_unusable: Callable[[Pool], str | None],
        clock: Clock,
        poll_s: float,
        stale_s: float = math.inf,
        learned: Callable[[PoolState], PoolState] = lambda state: state,
    ) -> None:
        """`why_unusable` says of an external pool why it may not be asked. What was published is
        believed for `stale_s` after it was first read. `learned` adds to a state what calls have
        taught of its pool: once for each poll, whatever the calls."""
        self._redis = redis
        self._catalog = catalog
        self._why_unusable = why_unusable
        self._unusable: dict[str, str] = {}
        self._clock = clock
        self._poll_s = poll_s
        self._stale_s = stale_s
        self._learned = learned
        self._read_s = clock()
        self._raw = b""
        self._published: dict[str, PublishedPool] = {}
        self._published_at_ms = 0
        self.nodes: tuple[NodeEntry, ...] = ()
        self.leader = Leader("", 0)
        self.spares: Mapping[str, int] = {}
        """How many run, by the type of their node."""
        self.leaving: dict[str, Leaving] = {}
        """Replicas whose nodes leave."""
        self._leaving_nodes: Mapping[str, float] = {}
        self.notices = 0
        """How many nodes were heard to leave."""
        self._in_flight: Counter[str] = Counter()
        self._in_flight_of_pool: Counter[str] = Counter()
        self._elsewhere: Counter[str] = Counter()
        self._made: _Picture | None = None
        self._last: Mapping[str, PoolState] = {}
        self._next_change: asyncio.Future[None] | None = None

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._poll_s)

    async def refresh(self) -> None:
        self._made = None
        before = self._leaving_nodes
        try:
            raw, self._leaving_nodes = await self._read()
        except RedisError as unreachable:
            log.warning("fleet: redis is out of reach: %s", unreachable)
            return
        if raw is not None and raw != self._raw:
            self._raw = raw
            try:
                self.publish(msgspec.json.decode(raw, type=_Fleet))
            except (msgspec.DecodeError, UnicodeDecodeError) as unreadable:
                log.error("fleet: what is published cannot be read: %s", unreadable)
        self.notices += len(self._leaving_nodes.keys() - before)
        self._note_leaving()

    async def _read(self) -> tuple[bytes | None, Mapping[str, float]]:
        """What is published, and the nodes that leave, which are known before the next snapshot
        says so."""
        async with self._redis.pipeline(transaction=False) as both:
            both.get(FLEET_KEY)
            both.hgetall(LEAVING_KEY)
            raw, marks = await both.execute()
        return raw, deadlines_s(marks)

    def _note_leaving(self) -> None:
        """A replica that is not published any more still has its calls, to its end."""
        now_s, before = self._clock(), self.leaving
        replicas = [each for pool in self._published.values() for each in pool.replicas]
        there = {each.id for each in replicas}
        kept = {id: each for id, each in before.items() if id not in there}
        self.leaving = {
            id: each for id, each in kept.items() if each.node_ends_s + FORGET_S > now_s
        }
        for each in replicas:
            node_ends_s = self._leaving_nodes.get(each.node or "")
            ends_s = node_ends_s if each.ends_ms is None else each.ends_ms / 1000
            if ends_s is not None:
                since_s = before[each.id].since_s if each.id in before else now_s
                self.leaving[each.id] = Leaving(since_s, ends_s, node_ends_s or ends_s)

    def publish(self, fleet: _Fleet) -> None:
        self._published = {pool.name: pool for pool in fleet.pools}
        self._published_at_ms = fleet.at_ms
        self.nodes = fleet.nodes
        self.spares = fleet.spares
        self.leader = Leader(fleet.controller, fleet.epoch)
        self._read_s = self._clock()
        if self._next_change is not None:
            self._next_change.set_result(None)
            self._next_change = None

    async def changed(self, timeout_s: float) -> None:
        """Return at the next change of the fleet, or after `timeout_s`."""
        if self._next_change is None:
            self._next_change = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._next_change}, timeout=max(0.0, timeout_s))

    def snapshot(self, models: Iterable[str] | None = None) -> FleetSnapshot:
        """The pools of these models, or of all, as they are now."""
        picture = self._known()
        if models is None:
            models = picture.catalog.models
        pools = tuple([state for model in models for state in picture.of_model.get(model, ())])
        return FleetSnapshot(self._clock(), picture.catalog.models, pools, self.in_flight_of_pool)

    def state(self, pool_name: str) -> PoolState | None:
        return self._known().by_name.get(pool_name)

    def serving(self, place: str) -> PoolState | None:
        """The pool whose warm replica or server outside this is."""
        return self._known().by_place.get(place)

    def why_blocked(self, pool_name: str) -> str | None:
        """Why a pool takes no call, or None where it may, or is not known."""
        state = self.state(pool_name)
        return state.blocked_reason if state else None

    def _known(self) -> "_Picture":
        """Made anew after each poll, and when the catalog or the published fleet is another one,
        and not for each call over however many pools."""
        catalog, is_stale = self._catalog(), self.is_stale
        picture = self._made
        if (
            picture is None
            or picture.catalog is not catalog
            or picture.published is not self._published
            or picture.is_stale is not is_stale
        ):
            states = [self._learned(self._state(pool, is_stale)) for pool in catalog.pools]
            by_name = {state.pool.name: self._same(state) for state in states}
            self._tell_unusable(by_name)
            of_model: dict[str, list[PoolState]] = {model: [] for model in catalog.models}
            for state in by_name.values():
                if state.pool.model in of_model:
                    of_model[state.pool.model].append(state)
            by_place = {place: state for state in by_name.values() for place in _places(state)}
            picture = self._made = _Picture(
                catalog, self._published, by_name, of_model, by_place, is_stale
            )
            self._last = by_name
        return picture

    def _same(self, state: PoolState) -> PoolState:
        """The state that is known already, if it says the same: what decisions keep of it is found
        by looking whether it is the one."""
        before = self._last.get(state.pool.name)
        return before if before == state else state

    def _tell_unusable(self, by_name: Mapping[str, PoolState]) -> None:
        """Once for each reason."""
        unusable = {
            name: state.blocked_reason
            for name, state in by_name.items()
            if state.pool.is_external and state.blocked_reason
        }
        for name, reason in unusable.items():
            if self._unusable.get(name) != reason:
                log.warning("pool %s takes no call: %s", name, reason)
        for name in self._unusable.keys() - unusable.keys():
            log.warning("pool %s takes calls again, or is gone", name)
        self._unusable = unusable

    @property
    def age_s(self) -> float:
        return self._clock() - self._published_at_ms / 1000

    @property
    def is_stale(self) -> bool:
        """Nothing new was read for too long. The time since it was read counts, and not what the
        controller's clock says."""
        return self._clock() - self._read_s > self._stale_s

    def began(self, replica_id: str, pool: str) -> None:
        """Count an attempt on a replica, until it `ended`."""
        self._in_flight[replica_id] += 1
        self._in_flight_of_pool[pool] += 1

    def ended(self, replica_id: str, pool: str) -> None:
        for counter, key in ((self._in_flight, replica_id), (self._in_flight_of_pool, pool)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    @property
    def in_flight(self) -> dict[str, int]:
        """Open attempts by replica."""
        return dict(self._in_flight)

    def hear(self, calls: Mapping[str, int]) -> None:
        """The open attempts of all other gateways, by replica."""
        elsewhere: Counter[str] = Counter()
        for pool in self._published.values():
            elsewhere[pool.name] = sum(calls.get(each.id, 0) for each in pool.replicas)
        self._elsewhere = +elsewhere

    @property
    def in_flight_of_pool(self) -> dict[str, int]:
        """Open attempts of all gateways, as far as the others have said."""
        return dict(self._in_flight_of_pool + self._elsewhere)

    @property
    def places(self) -> Sequence[str]:
        """Replicas that are published, and servers outside. None while no replica is."""
        replicas = [each.id for pool in self.published for each in pool.replicas]
        outside = [outside_id(each.name) for each in self._catalog().pools if each.is_external]
        return [*replicas, *outside] if replicas else []

    @property
    def published(self) -> Sequence[PublishedPool]:
        """The controller's own words, for people."""
        return [*self._published.values()]

    def _state(self, pool: Pool, is_stale: bool) -> PoolState:
        published = self._published.get(pool.name)
        if pool.is_external:
            reason = self._why_unusable(pool)
            return PoolState(pool=pool, replicas=(), waiting=0, blocked_reason=reason)
        if published is None:
            lost = _losses_per_s(pool, NOTHING_COUNTED)
            return PoolState(pool=pool, replicas=(), waiting=0, losses_per_s=lost)
        measured_s = published.start_s or pool.cold_start_s
        return PoolState(
            pool=replace(pool, cold_start_s=measured_s),
            replicas=tuple(
                _replica(r, pool, is_stale, r.id in self.leaving) for r in published.replicas
            ),
            waiting=published.waiting,
            blocked_reason=published.blocked,
            ready_at_s=published.ready_at_s(self._published_at_ms, is_stale),
            is_stale=is_stale,
            losses_per_s=_losses_per_s(pool, published.losses),
        )


def _losses_per_s(pool: Pool, losses: Occurrences) -> float | None:
    if pool.capacity_class is not CapacityClass.SPOT:
        return None
    return in_steps(losses_per_s(losses), PRIOR_LOSSES_PER_S)


@dataclass(frozen=True, slots=True)
class _Picture:
    """The states of all pools, and what they were made of."""

    catalog: Catalog
    published: Mapping[str, PublishedPool]
    by_name: Mapping[str, PoolState]
    of_model: Mapping[str, Sequence[PoolState]]
    by_place: Mapping[str, PoolState]
    is_stale: bool


def _places(state: PoolState) -> Iterable[str]:
    if state.pool.is_external:
        return (outside_id(state.pool.name),)
    return [each.id for each in state.replicas if each.state is ReplicaState.WARM]


def _replica(published: PublishedReplica, pool: Pool, is_stale: bool, is_leaving: bool) -> Replica:
    """Of what is stale nobody knows how busy it is: it counts as full, and has no gauges. One whose
    node leaves takes no new call."""
    is_draining = is_leaving and published.state is ReplicaState.WARM
    running = max(published.running, pool.max_ongoing) if is_stale else published.running
    return Replica(
        id=published.id,
        address=published.address,
        state=ReplicaState.DRAINING if is_draining else published.state,
        since_ms=published.since_ms,
        running=running,
        queued=published.queued,
        gauges=None if is_stale else published.gauges,
    )
