"""The fleet as gateways see it: one JSON document in Redis, rewritten on every observation.

A pool with no replicas is cold. Gateways send calls to WARM replicas only. So a replica appears
here as WARM only after it answered us, and as DRAINING before it refuses anything.
"""

import logging
from collections.abc import Mapping, Sequence

import msgspec
from redis.asyncio import Redis

from routing.gauges import Gauges
from workers.autoscaling.demand import Pace, Terms
from workers.autoscaling.mixes import Share
from workers.autoscaling.stages import Stage, StageCount
from workers.controller.lease import LEASE_KEY
from workers.weights.reports import FetchProgress

log = logging.getLogger(__name__)

FLEET_KEY = "sluice:fleet"


class ReplicaEntry(msgspec.Struct, frozen=True):
    """`gauges` are the replica's own words, None while it has said none. `stage` and `eta_s` are of
    one that starts. `pid` is that of its process, once it has one. `node`: where it is, None where
    no nodes are declared. `ends_ms`: when its calls end at the latest, where its node leaves.
    `fetch`: how its checkpoint comes, None while none does."""

    id: str
    address: str
    state: str
    since_ms: int
    running: int
    queued: int
    gauges: Gauges | None = None
    pid: int | None = None
    stage: Stage | None = None
    eta_s: float | None = None
    node: str | None = None
    ends_ms: int | None = None
    fetch: FetchProgress | None = None


class PoolEntry(msgspec.Struct, frozen=True):
    """`blocked`: why the pool cannot start now (quarantine), None while it can. `ready_at_ms`: for
    a pool that lost its replicas, when it is expected to have one. Beside it stand since when the
    pool has none, and what is gone (`workers.autoscaling.recoveries`). `lost`: replicas that went
    without having drained, in `warm_s` of all of them together; both are forgotten slowly
    (`workers.controller.lost_replicas`). `pace`: what its replicas were measured to do.
    `gaps`: how long nobody called (`workers.autoscaling.keep_alive`). Both are for the next
    controller. `terms`: the numbers of the decision. `mix`: what the mix of the pool decided.
    `wake_s`: from sleep to warm. `stages`: how many starts were in each stage so far, and for how
    long."""

    name: str
    target: int
    reason: str
    cold_start_s: float
    waiting: int
    replicas: tuple[ReplicaEntry, ...]
    blocked: str | None = None
    ready_at_ms: int | None = None
    lost_since_ms: int | None = None
    gone: str | None = None
    lost: float = 0.0
    warm_s: float = 0.0
    terms: Terms | None = None
    pace: Pace | None = None
    gaps: Mapping[int, float] = {}
    mix: Share | None = None
    wake_s: float | None = None
    stages: Mapping[Stage, StageCount] = {}


class NodeEntry(msgspec.Struct, frozen=True):
    """One node. `pid` is that of its raylet. `why`: what ends it, or ended it. `weights`: ids of
    the checkpoints that it has fetched."""

    id: str
    type: str
    market: str
    zone: str | None
    state: str
    cost_nanousd_per_s: int
    replicas: int
    launched_ms: int
    deadline_ms: int | None = None
    ended_ms: int | None = None
    why: str | None = None
    pid: int | None = None
    weights: tuple[str, ...] = ()


class Fleet(msgspec.Struct, frozen=True):
    """`epoch`: of the controller that leads. `recoveries`: seconds of the last recoveries by kind,
    for the next controller. `spares`: how many run, by the type of their node."""

    v: int
    seq: int
    at_ms: int
    controller: str
    pools: tuple[PoolEntry, ...]
    recoveries: Mapping[str, Sequence[float]] = {}
    nodes: tuple[NodeEntry, ...] = ()
    epoch: int = 0
    spares: Mapping[str, int] = {}


_PUBLISH = """
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1
"""


class FleetPublisher:
    """Writes numbered snapshots, unless another controller holds the lease. The number goes on
    where an earlier controller stopped."""

    def __init__(self, redis: Redis, *, controller_id: str) -> None:
        self._redis = redis
        self._publish = redis.register_script(_PUBLISH)
        self._controller_id = controller_id
        self._seq = 0

    async def resume(self) -> Fleet | None:
        """Read the last published snapshot, to continue after it."""
        raw = await self._redis.get(FLEET_KEY)
        if raw is None:
            return None
        try:
            last = msgspec.json.decode(raw, type=Fleet)
        except msgspec.DecodeError as unreadable:
            log.warning("the last fleet snapshot is unreadable and is passed over: %s", unreadable)
            return None
        self._seq = max(self._seq, last.seq)
        return last

    async def publish(
        self,
        pools: tuple[PoolEntry, ...],
        *,
        at_ms: int,
        recoveries: Mapping[str, Sequence[float]] | None = None,
        nodes: tuple[NodeEntry, ...] = (),
        epoch: int = 0,
        spares: Mapping[str, int] | None = None,
    ) -> None:
        """Look at the lease and write in one step: a controller may pause anywhere before."""
        self._seq += 1
        fleet = Fleet(
            *(1, self._seq, at_ms, self._controller_id, pools),
            *(recoveries or {}, nodes, epoch, spares or {}),
        )
        keys, raw = [FLEET_KEY, LEASE_KEY], msgspec.json.encode(fleet)
        if not await self._publish(keys=keys, args=[raw, self._controller_id]):
            log.warning("another controller leads: snapshot %d is not published", self._seq)
