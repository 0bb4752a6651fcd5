"""Live pools as they are shown: replicas with their states, slots, prices, and the reason why."""

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.console.charts import slots
from gateway.console.formatting import Money, capacity_words, count, money, plural, since
from gateway.upstream.faults import LastFault, words_of
from routing.types import FleetSnapshot, PoolState, Replica, ReplicaState
from workers.autoscaling.demand import Terms

HOUR_S = 3600
FAULT_IS_NEWS_S = 600.0
COUNTED = (
    ReplicaState.WARM,
    ReplicaState.STARTING,
    ReplicaState.DRAINING,
    ReplicaState.SLEEPING,
)


@dataclass(frozen=True, slots=True)
class Intent:
    """The controller's own words about a pool."""

    target: int
    reason: str
    terms: Terms | None = None


@dataclass(frozen=True, slots=True)
class ReplicaView:
    id: str
    name: str
    state: str
    since: str
    doing: str
    slots_used: int
    slots_total: int
    cells: tuple[tuple[float, float, bool], ...]


@dataclass(frozen=True, slots=True)
class PoolView:
    name: str
    model: str
    variant: str
    capacity_class: str
    is_external: bool
    state: str
    summary: str
    replicas: tuple[ReplicaView, ...]
    reason_kind: str
    reason: str
    numbers: str
    is_blocked: bool
    waiting: int
    slots_used: int
    slots_total: int
    price_per_hour: Money
    burn_per_hour: Money
    input_per_mtok: Money
    output_per_mtok: Money
    base_url: str
    upstream_model: str


@dataclass(frozen=True, slots=True)
class FleetView:
    pools: tuple[PoolView, ...]
    warm: int
    starting: int
    draining: int
    sleeping: int
    cold_pools: int
    waiting: int
    burn_per_hour: Money
    silent_for: str
    """How long nothing has been heard of the controller; empty while it speaks."""

    @property
    def summary(self) -> str:
        parts = [
            f"{self.starting} starting" if self.starting else "",
            f"{self.draining} draining" if self.draining else "",
            f"{self.sleeping} asleep" if self.sleeping else "",
            f"{plural(self.cold_pools, 'pool')} cold" if self.cold_pools else "",
        ]
        return ", ".join(part for part in parts if part) or "no pool is cold"


SILENT_AFTER_S = 5.0


def fleet_view(
    snapshot: FleetSnapshot,
    intents: Mapping[str, Intent],
    faults: Mapping[str, LastFault],
    *,
    age_s: float,
) -> FleetView:
    """`age_s` is how old the controller's last word is; `faults` are those of external pools."""
    now_us = round(snapshot.at_s * 1e6)
    own = [state for state in snapshot.pools if not state.pool.is_external]
    replicas = [replica for state in own for replica in state.replicas]
    return FleetView(
        pools=tuple(
            _pool(state, intents.get(state.pool.name), _fault(faults, state, now_us), now_us)
            for state in sorted(snapshot.pools, key=lambda s: (s.pool.is_external, s.pool.name))
        ),
        warm=_count(replicas, ReplicaState.WARM),
        starting=_count(replicas, ReplicaState.STARTING),
        draining=_count(replicas, ReplicaState.DRAINING),
        sleeping=_count(replicas, ReplicaState.SLEEPING),
        cold_pools=sum(not state.replicas for state in own),
        waiting=sum(state.waiting for state in own),
        burn_per_hour=money(sum(_burn_nanousd_per_hour(state) for state in own)),
        silent_for="" if age_s < SILENT_AFTER_S else since(round(age_s * 1e6)),
    )


def _pool(state: PoolState, intent: Intent | None, fault: str, now_us: int) -> PoolView:
    pool = state.pool
    kind, _, words = (intent.reason if intent else "").partition(": ")
    replicas = sorted(state.replicas, key=lambda replica: (replica.since_ms, replica.id))
    warm = [replica for replica in replicas if replica.state is ReplicaState.WARM]
    return PoolView(
        name=pool.name,
        model=pool.model,
        variant=pool.variant,
        capacity_class=capacity_words(pool.capacity_class, pool.is_simulated),
        is_external=pool.is_external,
        state=_state_of(state),
        summary=_summary(state),
        replicas=tuple(_replica(replica, state, now_us) for replica in replicas),
        reason_kind=kind.replace("_", " "),
        reason=state.blocked_reason or fault or words or _unspoken(state),
        numbers=_numbers(intent.terms if intent else None),
        is_blocked=bool(state.blocked_reason or fault),
        waiting=state.waiting,
        slots_used=sum(replica.running for replica in warm),
        slots_total=len(warm) * pool.max_ongoing,
        price_per_hour=money(pool.cost_nanousd_per_s * HOUR_S),
        burn_per_hour=money(_burn_nanousd_per_hour(state)),
        input_per_mtok=money(pool.cost_input_nanousd_per_mtok),
        output_per_mtok=money(pool.cost_output_nanousd_per_mtok),
        base_url=pool.base_url or "",
        upstream_model=pool.upstream_model or "",
    )


def _numbers(terms: Terms | None) -> str:
    """The terms of the decision on the count, where there is any demand."""
    if terms is None or not terms.needed:
        return ""
    calls = plural(terms.running + terms.waiting, "open call")
    tokens = count(terms.tokens_running + terms.tokens_waiting)
    tier = f" of {terms.tier} calls" if terms.tier else ""
    speed = count(round(terms.tokens_per_s)) if terms.tokens_per_s else "unmeasured"
    needs = (
        (f"first tokens{tier}", terms.for_first_token),
        ("deadlines", terms.for_deadlines),
        ("usual load", terms.for_load),
        ("expected calls", terms.for_forecast),
    )
    words = ", ".join(f"{number} for {name}" for name, number in needs if number)
    return f"{calls}, {tokens} tokens to do, {speed} tokens/s a replica; needed: {words}"


def _fault(faults: Mapping[str, LastFault], state: PoolState, now_us: int) -> str:
    """What its server last refused, for as long as that is news."""
    last = faults.get(state.pool.name)
    if last is None or not state.pool.is_external:
        return ""
    age_us = now_us - round(last.at_s * 1e6)
    if age_us > FAULT_IS_NEWS_S * 1e6:
        return ""
    return f"{words_of(last.fault)} ({since(age_us)} ago, seen by this gateway)"


def _state_of(state: PoolState) -> str:
    """One word for the whole pool: the best of what its replicas are."""
    if state.pool.is_external:
        return "EXTERNAL"
    present = {replica.state for replica in state.replicas}
    return next((best.value for best in COUNTED if best in present), ReplicaState.COLD.value)


def _summary(state: PoolState) -> str:
    pool = state.pool
    if pool.is_external:
        return "a server of others: always there, never started"
    if not state.replicas:
        if state.blocked_reason is not None:
            return "no replica; starting one is put off"
        if state.waiting:
            return "a replica is asked for"
        start = since(round(pool.cold_start_s * 1e6))
        return f"the next call starts a replica in about {start}"
    return f"{len(state.replicas)} of at most {plural(pool.max_replicas, 'replica')}"


def _unspoken(state: PoolState) -> str:
    if state.pool.is_external:
        return "priced by the token, never scaled"
    return "the controller has not spoken of it yet"


def _replica(replica: Replica, state: PoolState, now_us: int) -> ReplicaView:
    total = state.pool.max_ongoing
    age_us = now_us - replica.since_ms * 1000
    return ReplicaView(
        id=replica.id,
        name=replica.id[-6:],
        state=replica.state.value,
        since=since(age_us),
        doing=_doing(replica, state, age_us),
        slots_used=replica.running,
        slots_total=total,
        cells=slots(replica.running, total),
    )


def _doing(replica: Replica, state: PoolState, age_us: int) -> str:
    if replica.state is ReplicaState.STARTING:
        left_us = round(state.pool.cold_start_s * 1e6) - age_us
        return f"ready in about {since(left_us)}" if left_us >= 1e6 else "ready any moment"
    if replica.state is ReplicaState.SLEEPING:
        return f"awake in about {since(round(state.pool.cold_start_s * 1e6))}"
    running = f"{replica.running} of {state.pool.max_ongoing} slots"
    return f"{running}, {replica.queued} queued" if replica.queued else running


def _burn_nanousd_per_hour(state: PoolState) -> int:
    """Without what sleeps, which costs a share of this that only the controller knows."""
    awake = sum(replica.state is not ReplicaState.SLEEPING for replica in state.replicas)
    return state.pool.cost_nanousd_per_s * HOUR_S * awake


def _count(replicas: list[Replica], state: ReplicaState) -> int:
    return sum(replica.state is state for replica in replicas)
