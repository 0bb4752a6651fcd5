"""Replaces the replicas of a pool by others without an interruption. Pure.

A generation is all replicas made of the same things: weights, engine, bounds. While the wanted one
is not there, an older one serves on and is scaled as always; the wanted one rises behind it, shown
as STARTING. In the round in which as many of it are warm, it serves, and the older one leaves:
shown as DRAINING, then refusing, then gone when its calls have ended. One that cannot rise is tried
again, later each time, and the older one serves on. What is remembered is a convenience: without it
the same follows from what is seen, so a restarted controller goes on where another stopped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, ReplicaView, ScaleDecision


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation as seen, and what is remembered of its scaling."""

    name: str
    view: PoolView
    memory: PoolMemory

    @property
    def warm(self) -> int:
        return len(self.view.replicas_in(Phase.WARM))

    @property
    def failure(self) -> str | None:
        """Why it cannot start, as far as is known."""
        return self.memory.failure or self.view.failure


@dataclass(frozen=True, slots=True)
class Succession:
    """What one round hands to the next: who serves, and since when others leave."""

    serving: str | None = None
    leaving_since_ms: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SuccessionDecision:
    """`scales`: for the serving and the rising generation; those that leave keep their count until
    they are `done`, when nothing is lost by removing them. `shown`: each replica's state for
    gateways. `detail`: what is being replaced, empty when nothing is."""

    serving: str
    scales: Mapping[str, ScaleDecision]
    shown: Mapping[str, Phase]
    refusing: frozenset[str]
    done: frozenset[str]
    detail: str = ""


Step = tuple[Succession, Mapping[str, PoolMemory], SuccessionDecision]


def succeed(
    wanted: Generation,
    older: Sequence[Generation],
    before: Succession,
    knobs: Knobs,
    *,
    waiting: int,
    patience_ms: int,
) -> Step:
    """One round of one pool: the next succession, what to remember of each generation, and what
    to do. `waiting` callers are the serving one's; after `patience_ms` a leaving one goes although
    it still works."""
    serving = _serving(wanted, older, before)
    scales, memories = _scales(wanted, serving, waiting, knobs)
    leaving = [g for g in older if g.name != serving.name]
    since_ms = {g.name: before.leaving_since_ms.get(g.name, g.view.at_ms) for g in leaving}
    ages_ms = {g.name: g.view.at_ms - since_ms[g.name] for g in leaving}
    refused = [r.id for g in leaving if ages_ms[g.name] >= knobs.settle_ms for r in g.view.replicas]
    limit_ms = knobs.settle_ms + patience_ms
    done = [g.name for g in leaving if _is_done(g) or ages_ms[g.name] > limit_ms]
    decision = SuccessionDecision(
        serving=serving.name,
        scales=scales,
        shown=_shown(wanted, older, serving, scales),
        refusing=frozenset(refused).union(*(scale.refusing for scale in scales.values())),
        done=frozenset(done),
        detail=_detail(wanted, serving, memories, leaving),
    )
    memories |= {g.name: _at_rest(g.memory) for g in leaving}
    return Succession(serving.name, since_ms), memories, decision


def _serving(wanted: Generation, older: Sequence[Generation], before: Succession) -> Generation:
    """The older one until the wanted one has as many warm replicas, or it has nothing to lose."""
    known = {g.name: g for g in (wanted, *older)}
    current = known.get(before.serving or "") or _adopted(wanted, older)
    if wanted.warm >= max(1, current.warm):
        return wanted
    if current.memory.target == 0 and wanted.failure is None:
        return wanted
    return current


def _adopted(wanted: Generation, older: Sequence[Generation]) -> Generation:
    """Who serves, when nobody remembers."""
    return max((wanted, *older), key=lambda g: (g.warm, g.memory.target, g is wanted))


def _scales(
    wanted: Generation, serving: Generation, waiting: int, knobs: Knobs
) -> tuple[dict[str, ScaleDecision], dict[str, PoolMemory]]:
    """The serving one follows demand; the rising one is to have as many replicas as it."""
    view = replace(serving.view, waiting=waiting)
    memory, scale = decide(view, serving.memory, knobs)
    scales, memories = {serving.name: scale}, {serving.name: memory}
    if serving is not wanted:
        same = replace(knobs, min_replicas=scale.target, max_replicas=scale.target)
        view = replace(wanted.view, waiting=0)
        memories[wanted.name], scales[wanted.name] = decide(view, wanted.memory, same)
    return scales, memories


def _is_done(leaving: Generation) -> bool:
    """Whether every replica that ever answered refuses work and has none."""
    return all(
        r.phase is Phase.STARTING
        or (r.phase is Phase.DRAINING and r.running == 0 and r.queued == 0)
        for r in leaving.view.replicas
    )


def _at_rest(memory: PoolMemory) -> PoolMemory:
    """A generation that leaves forgets its windows and drains; it may be wanted again."""
    return PoolMemory(
        target=memory.target,
        cold_start_ms=memory.cold_start_ms,
        attempts_since_ms=memory.attempts_since_ms,
        failures=memory.failures,
        quarantined_until_ms=memory.quarantined_until_ms,
        failure=memory.failure,
    )


def _shown(
    wanted: Generation,
    older: Sequence[Generation],
    serving: Generation,
    scales: Mapping[str, ScaleDecision],
) -> dict[str, Phase]:
    leaving_ids = scales[serving.name].leaving
    shown = {
        r.id: Phase.DRAINING if r.id in leaving_ids else r.phase for r in serving.view.replicas
    }
    for generation in (wanted, *older):
        if generation is not serving:
            rising = generation is wanted
            shown |= {r.id: _shown_aside(r, rising=rising) for r in generation.view.replicas}
    return shown


def _shown_aside(replica: ReplicaView, *, rising: bool) -> Phase:
    return Phase.STARTING if rising and replica.phase is not Phase.DRAINING else Phase.DRAINING


def _detail(
    wanted: Generation,
    serving: Generation,
    memories: Mapping[str, PoolMemory],
    leaving: Sequence[Generation],
) -> str:
    if serving is not wanted:
        failure = memories[wanted.name].failure or wanted.view.failure
        if failure is not None:
            return f"the replacement does not start, so the old replicas serve on: {failure}"
        return f"being replaced, {wanted.warm} of {max(1, serving.warm)} new replicas are warm"
    working = sum(len(g.view.replicas) for g in leaving)
    return f"replaced, {working} old replicas finish their calls" if working else ""
