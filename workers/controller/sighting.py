"""What is seen of each application: the replicas that Serve names, joined with their own answers.

Serve knows a dead replica only after a health check. So a replica is WARM only while it answers
`stats` itself. One whose port refuses is gone at once. One that is merely slow keeps its last
numbers for a while.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from routing.gauges import Gauges
from workers.autoscaling.types import Phase, PoolView, ReplicaView
from workers.controller.replica_api import ReplicaApi, ReplicaGone, ReplicaSlow, ReplicaStats
from workers.ray.serve_api import DeploymentDetails, ReplicaDetails, ServeDetails
from workers.ray.serve_apps import DEPLOYMENT

_ALIVE = frozenset({"STARTING", "UPDATING", "RECOVERING", "RUNNING", "PENDING_MIGRATION"})
_FAILURE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Sighting:
    """One application as it is seen: the view to decide on, without the callers that wait for its
    pool, and what acting on the decision needs.

    `cluster_target` is the count that Serve holds, None while there is no deployment.
    """

    view: PoolView
    addresses: Mapping[str, str] = field(default_factory=dict)
    serve: Mapping[str, ReplicaDetails] = field(default_factory=dict)
    cluster_target: int | None = None


@dataclass(frozen=True, slots=True)
class _LastAnswer:
    """The last that is known of one replica."""

    address: str | None
    phase: Phase
    since_ms: int
    stats: ReplicaStats | None = None
    answered_ms: int | None = None


class Observer:
    """Looks at all replicas at once, and remembers when each answered."""

    def __init__(self, replicas: ReplicaApi, *, now_ms: Callable[[], int], stale_ms: int) -> None:
        self._replicas = replicas
        self._now_ms = now_ms
        self._stale_ms = stale_ms
        self._known: dict[str, _LastAnswer] = {}

    async def look(self, apps: Sequence[str], details: ServeDetails) -> dict[str, Sighting]:
        """One sighting per name, also for an application that does not exist. Every replica that
        listens is asked, all at the same time."""
        present = [r for app in apps for r in _replicas_of(app, details)]
        ids = {r.replica_id for r in present}
        self._known = {id: answer for id, answer in self._known.items() if id in ids}
        await asyncio.gather(*(self._ask(r, details) for r in present))
        return {app: self._sighting(app, details) for app in apps}

    def stats_of(self, replica_id: str) -> ReplicaStats | None:
        """The last answer of a replica, while it answers or is merely slow."""
        answer = self._known.get(replica_id)
        return None if answer is None else answer.stats

    async def _ask(self, replica: ReplicaDetails, details: ServeDetails) -> None:
        answer = self._known.get(replica.replica_id)
        if answer is None:
            answer = _LastAnswer(None, Phase.STARTING, int(replica.start_time_s * 1000))
        # While Serve's controller restarts it names no address, and the replica still serves.
        address = details.address_of(replica.actor_name) or answer.address
        answer = replace(answer, address=address)
        if address is not None:
            answer = await self._answer(address, answer)
        self._known[replica.replica_id] = answer

    async def _answer(self, address: str, before: _LastAnswer) -> _LastAnswer:
        try:
            stats = await self._replicas.stats(address)
        except ReplicaGone:
            return replace(before, stats=None)
        except ReplicaSlow:
            fresh_ms = self._now_ms() - (before.answered_ms or 0)
            return before if fresh_ms < self._stale_ms else replace(before, stats=None)
        phase = _phase(stats)
        since_ms = before.since_ms if phase is before.phase else self._now_ms()
        return _LastAnswer(address, phase, since_ms, stats, self._now_ms())

    def _sighting(self, name: str, details: ServeDetails) -> Sighting:
        app = details.applications.get(name)
        deployment = None if app is None else app.deployments.get(DEPLOYMENT)
        answers = [
            (r.replica_id, self._known[r.replica_id])
            for r in _replicas_of(name, details)
            if _counts(self._known[r.replica_id])
        ]
        is_unbuilt = app is not None and deployment is None and app.status == "DEPLOY_FAILED"
        view = PoolView(
            at_ms=self._now_ms(),
            replicas=tuple(_view(id, answer) for id, answer in answers),
            waiting=0,
            failure=_last_words(app.message) if app is not None and is_unbuilt else None,
            deaths_ms=_deaths_ms(deployment),
            error="" if deployment is None else _last_words(deployment.message),
        )
        return Sighting(
            view=view,
            addresses={id: answer.address for id, answer in answers if answer.address is not None},
            serve={each.replica_id: each for each in _replicas_of(name, details)},
            cluster_target=None if deployment is None else deployment.target_num_replicas,
        )


def _phase(stats: ReplicaStats) -> Phase:
    if stats.waking:
        return Phase.STARTING
    if stats.asleep:
        return Phase.SLEEPING
    return Phase.DRAINING if stats.draining else Phase.WARM


def _replicas_of(name: str, details: ServeDetails) -> tuple[ReplicaDetails, ...]:
    app = details.applications.get(name)
    deployment = None if app is None else app.deployments.get(DEPLOYMENT)
    if deployment is None:
        return ()
    return tuple(r for r in deployment.replicas if r.state in _ALIVE)


def _counts(answer: _LastAnswer) -> bool:
    """Whether a replica counts. One that answered once and does no longer counts as gone."""
    return answer.phase is Phase.STARTING or answer.stats is not None


def _view(id: str, answer: _LastAnswer) -> ReplicaView:
    if answer.stats is None:
        return ReplicaView(id, answer.phase, answer.since_ms)
    idle_ms, gauges = answer.stats.last_active_ms_ago, answer.stats.gauges
    return ReplicaView(
        id,
        answer.phase,
        answer.since_ms,
        running=answer.stats.running,
        queued=answer.stats.queued,
        idle_ms=None if idle_ms is None else int(idle_ms),
        tokens_left=None if gauges is None else tokens_left(gauges),
        kv_tokens_total=0 if gauges is None else gauges.kv_tokens_total,
        fetch_ms=answer.stats.fetch_ms,
        queues=answer.stats.queues,
    )


def tokens_left(gauges: Gauges) -> int | None:
    """What open calls still need. None: the replica does not say."""
    return (gauges.prefill_tokens_left + gauges.output_tokens_left) or None


def _deaths_ms(deployment: DeploymentDetails | None) -> tuple[int, ...]:
    """When the replicas that died lately had been started. They are counted here because Serve's
    own status stays healthy when it gives up after scaling up."""
    if deployment is None:
        return ()
    return tuple(int(r.start_time_s * 1000) for r in deployment.recent_dead_replicas)


def _last_words(message: str) -> str:
    """The line of a traceback that names the error."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return (lines[-1] if lines else message)[-_FAILURE_CHARS:]
