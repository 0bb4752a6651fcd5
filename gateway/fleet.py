"""The live fleet: the controller's last snapshot, joined with the catalog and our own load.

Reads Redis, never Ray. Counts this gateway's open attempts per replica (law 6: in-flight per
replica equals open attempts), and wakes whoever waits for a replica when the fleet changes.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.catalog import Catalog
from routing.types import Clock, FleetSnapshot, Pool, PoolState, Replica, ReplicaState

log = logging.getLogger(__name__)

FLEET_KEY = "sluice:fleet"


class _Replica(msgspec.Struct):
    id: str
    address: str
    state: ReplicaState
    since_ms: int
    running: int = 0
    queued: int = 0


class _Pool(msgspec.Struct):
    name: str
    target: int
    reason: str = ""
    cold_start_s: float | None = None
    waiting: int = 0
    blocked: str | None = None
    replicas: tuple[_Replica, ...] = ()


class _Fleet(msgspec.Struct):
    seq: int
    at_ms: int
    pools: tuple[_Pool, ...] = ()


class FleetKeeper:
    """Keeps the snapshot current by polling every `poll_s` seconds."""

    def __init__(
        self, redis: Redis, catalog: Callable[[], Catalog], clock: Clock, poll_s: float
    ) -> None:
        self._redis = redis
        self._catalog = catalog
        self._clock = clock
        self._poll_s = poll_s
        self._raw = b""
        self._published: dict[str, _Pool] = {}
        self._published_at_ms = 0
        self._in_flight: Counter[str] = Counter()
        self._made: _Known | None = None
        self._next_change: asyncio.Future[None] | None = None

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._poll_s)

    async def refresh(self) -> None:
        try:
            raw: bytes | None = await self._redis.get(FLEET_KEY)  # type: ignore[assignment]
        except RedisError as unreachable:
            log.warning("fleet: redis is out of reach: %s", unreachable)
            return
        if raw is None or raw == self._raw:
            return
        self._raw = raw
        try:
            self.publish(msgspec.json.decode(raw, type=_Fleet))
        except (msgspec.DecodeError, UnicodeDecodeError) as unreadable:
            log.error("fleet: what is published cannot be read: %s", unreadable)

    def publish(self, fleet: _Fleet) -> None:
        self._published = {pool.name: pool for pool in fleet.pools}
        self._published_at_ms = fleet.at_ms
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
        known = self._known()
        if models is None:
            models = known.catalog.models
        pools = tuple([state for model in models for state in known.of_model.get(model, ())])
        return FleetSnapshot(at_s=self._clock(), models=known.catalog.models, pools=pools)

    def state(self, pool_name: str) -> PoolState | None:
        return self._known().by_name.get(pool_name)

    def _known(self) -> "_Known":
        """Made anew when the catalog or the published fleet is another one, and not for each call
        over however many pools; what is in flight is counted in place."""
        catalog = self._catalog()
        known = self._made
        if known is None or known.catalog is not catalog or known.published is not self._published:
            by_name = {pool.name: self._state(pool) for pool in catalog.pools}
            of_model: dict[str, list[PoolState]] = {model: [] for model in catalog.models}
            for state in by_name.values():
                if state.pool.model in of_model:
                    of_model[state.pool.model].append(state)
            known = self._made = _Known(catalog, self._published, by_name, of_model)
        return known

    @property
    def age_s(self) -> float:
        return self._clock() - self._published_at_ms / 1000

    def began(self, replica_id: str) -> None:
        """Count an attempt on a replica, until it `ended`."""
        self._in_flight[replica_id] += 1

    def ended(self, replica_id: str) -> None:
        self._in_flight[replica_id] -= 1
        if not self._in_flight[replica_id]:
            del self._in_flight[replica_id]

    @property
    def in_flight(self) -> dict[str, int]:
        return dict(self._in_flight)

    def pools_as_published(self) -> list[dict[str, object]]:
        """The controller's own words, for people."""
        return [msgspec.to_builtins(pool) for pool in self._published.values()]

    def _state(self, pool: Pool) -> PoolState:
        published = self._published.get(pool.name)
        if published is None:
            return PoolState(pool=pool, replicas=(), waiting=0)
        measured_s = published.cold_start_s or pool.cold_start_s
        return PoolState(
            pool=replace(pool, cold_start_s=measured_s),
            replicas=tuple(_replica(r) for r in published.replicas),
            waiting=published.waiting,
            in_flight=self._in_flight,
            blocked_reason=published.blocked,
        )


@dataclass(frozen=True, slots=True)
class _Known:
    """The states of all pools, and what they were made of."""

    catalog: Catalog
    published: Mapping[str, _Pool]
    by_name: Mapping[str, PoolState]
    of_model: Mapping[str, Sequence[PoolState]]


def _replica(published: _Replica) -> Replica:
    return Replica(
        id=published.id,
        address=published.address,
        state=published.state,
        since_ms=published.since_ms,
        running=published.running,
        queued=published.queued,
    )
