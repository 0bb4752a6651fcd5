"""Replaces the replicas of a pool by others without an interruption. Pure.

A generation is all replicas made of the same things: weights, engine, bounds. The newest one is the
generation that the catalogue describes now. While it is not ready, an older one serves on and is
scaled as always. The newest one rises behind it, shown as STARTING. In the round in which it has as
many warm replicas, it serves, and the older one leaves. A leaving one is shown as DRAINING, then it
refuses, then it goes when its calls have ended. A generation that cannot rise is tried again, later
each time, and the older one serves on. The memory of earlier rounds is a convenience: without it
the same follows from what is seen. So a restarted controller goes on where another one stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workers.autoscaling.demand import NO_DEMAND, Demand
from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, ReplicaView, ScaleDecision


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation as it is seen, and the memory of its scaling."""

    name: str
    view: PoolView
    memory: PoolMemory

    @property
    def warm(self) -> int:
        return len(self.view.replicas_in(Phase.WARM))

    @property
    def failure(self) -> str | None:
        """The reason why the generation cannot start, as far as it is known."""
        return self.memory.failure or self.view.failure


@dataclass(frozen=True, slots=True)
class Succession:
    """The memory from one round to the next: which generation serves, and since when others
    leave."""

    serving: str | None = None
    leaving_since_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SuccessionDecision:
    """`scales`: for the serving and the rising generation. A leaving one keeps its count until it
    is `done`, when nothing is lost by removing it. `shown`: the state of each replica for gateways.
    `detail`: what is being replaced, empty when nothing is."""

    serving: str
    scales: Mapping[str, ScaleDecision]
    shown: Mapping[str, Phase]
    refusing: frozenset[str]
    done: frozenset[str]
    detail: str = ""
    asleep: frozenset[str] = frozenset()


Step = tuple[Succession, Mapping[str, PoolMemory], SuccessionDecision]


def succeed(
    newest: Generation,
    older: Sequence[Generation],
    before: Succession,
    knobs: Knobs,
    *,
    waiting: int,
    patience_ms: int,
    demand: Demand = NO_DEMAND,
) -> Step:
    """Do one round of one pool. Returns the next succession, the memory of each generation, and
    what to do. `waiting` callers and the `demand` are for the serving generation. After
    `patience_ms` a leaving one goes although it still works."""
    serving = _serving(newest, older, before)
    view = replace(serving.view, waiting=waiting, demand=demand)
    scales, memories = _scales(newest, serving, view, knobs)
    leaving = [g for g in older if g.name != serving.name]
    since_ms = {g.name: before.leaving_since_ms.get(g.name, g.view.at_ms) for g in leaving}
    ages_ms = {g.name: g.view.at_ms - since_ms[g.name] for g in leaving}
    refused = [r.id for g in leaving if ages_ms[g.name] >= knobs.settle_ms for r in g.view.replicas]
    limit_ms = knobs.settle_ms + patience_ms
    done = [g.name for g in leaving if _is_done(g) or ages_ms[g.name] > limit_ms]
    decision = SuccessionDecision(
        serving=serving.name,
        scales=scales,
        shown=_shown(newest, older, serving, scales),
        refusing=frozenset(refused).union(*(scale.refusing for scale in scales.values())),
        done=frozenset(done),
        detail=_detail(newest, serving, memories, leaving),
        asleep=frozenset[str]().union(
            *(scale.asleep for scale in scales.values()),
            *({r.id for r in g.view.replicas_in(Phase.SLEEPING)} for g in leaving),
        ),
    )
    memories |= {g.name: _at_rest(g.memory) for g in leaving}
    return Succession(serving.name, since_ms), memories, decision


def _serving(newest: Generation, older: Sequence[Generation], before: Succession) -> Generation:
    """The generation that serves. An older one does until the newest one has as many warm replicas,
    or the older one has nothing to lose."""
    by_name = {g.name: g for g in (newest, *older)}
    current = by_name.get(before.serving or "") or _adopted(newest, older)
    if newest.warm >= max(1, current.warm):
        return newest
    if current.memory.target == 0 and newest.failure is None:
        return newest
    return current


def _adopted(newest: Generation, older: Sequence[Generation]) -> Generation:
    """The generation that serves when no memory says so."""
    return max((newest, *older), key=lambda g: (g.warm, g.memory.target, g is newest))


def _scales(
    newest: Generation, serving: Generation, view: PoolView, knobs: Knobs
) -> tuple[dict[str, ScaleDecision], dict[str, PoolMemory]]:
    """The decisions on counts. The serving generation follows demand. The rising one is to have as
    many replicas."""
    memory, scale = decide(view, serving.memory, knobs)
    scales, memories = {serving.name: scale}, {serving.name: memory}
    if serving is not newest:
        same = replace(knobs, min_replicas=scale.target, max_replicas=scale.target)
        view = replace(newest.view, waiting=0)
        memories[newest.name], scales[newest.name] = decide(view, newest.memory, same)
    return scales, memories


def _is_done(leaving: Generation) -> bool:
    """Whether every replica that ever answered refuses work and runs none."""
    return all(
        r.phase in (Phase.STARTING, Phase.SLEEPING)
        or (r.phase is Phase.DRAINING and r.running == 0 and r.queued == 0)
        for r in leaving.view.replicas
    )


def _at_rest(memory: PoolMemory) -> PoolMemory:
    """The memory of a generation that leaves: without windows and drains. It may become the newest
    again."""
    return PoolMemory(
        target=memory.target,
        cold_start_ms=memory.cold_start_ms,
        wake_ms=memory.wake_ms,
        attempts_since_ms=memory.attempts_since_ms,
        failures=memory.failures,
        quarantined_until_ms=memory.quarantined_until_ms,
        failure=memory.failure,
    )


def _shown(
    newest: Generation,
    older: Sequence[Generation],
    serving: Generation,
    scales: Mapping[str, ScaleDecision],
) -> dict[str, Phase]:
    scale = scales[serving.name]
    phases = {r.id: _shown_serving(r, scale) for r in serving.view.replicas}
    for generation in (newest, *older):
        if generation is not serving:
            rising = generation is newest
            phases |= {r.id: _shown_aside(r, rising=rising) for r in generation.view.replicas}
    return phases


def _shown_serving(replica: ReplicaView, scale: ScaleDecision) -> Phase:
    """A sleeper that is to work is on its way, although it may not know yet."""
    if replica.id in scale.leaving:
        return Phase.DRAINING
    if replica.phase is Phase.SLEEPING and replica.id not in scale.asleep | scale.refusing:
        return Phase.STARTING
    return replica.phase


def _shown_aside(replica: ReplicaView, *, rising: bool) -> Phase:
    return Phase.STARTING if rising and replica.phase is not Phase.DRAINING else Phase.DRAINING


def _detail(
    newest: Generation,
    serving: Generation,
    memories: Mapping[str, PoolMemory],
    leaving: Sequence[Generation],
) -> str:
    if serving is not newest:
        failure = memories[newest.name].failure or newest.view.failure
        if failure is not None:
            return f"the replacement does not start, so the old replicas serve on: {failure}"
        return f"being replaced, {newest.warm} of {max(1, serving.warm)} new replicas are warm"
    working = sum(len(g.view.replicas) for g in leaving)
    return f"replaced, {working} old replicas finish their calls" if working else ""
