"""Law 7 under arbitrary views: bounds hold, 0 to n needs demand, a constant world comes to rest."""

from collections import Counter
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from workers.autoscaling.scale import decide
from workers.autoscaling.types import (
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ReplicaView,
    ScaleDecision,
)

NAMES = ("a", "b", "c", "d", "e")


@st.composite
def knobs(draw: st.DrawFn) -> Knobs:
    least = draw(st.sampled_from((0, 0, 1, 3)))
    return Knobs(
        min_replicas=least,
        max_replicas=draw(st.integers(max(least, 1), 5)),
        slots=draw(st.integers(1, 16)),
        idle_ms=draw(st.integers(0, 20_000)),
        up_delay_ms=draw(st.integers(0, 3_000)),
        settle_ms=draw(st.integers(0, 1_000)),
        drain_timeout_ms=draw(st.integers(1, 10_000)),
        start_timeout_ms=draw(st.integers(1_000, 60_000)),
        start_attempts=draw(st.integers(1, 3)),
        backoff_ms=draw(st.integers(1, 5_000)),
        backoff_max_ms=60_000,
    )


def replicas() -> st.SearchStrategy[tuple[ReplicaView, ...]]:
    one = st.builds(
        ReplicaView,
        id=st.sampled_from(NAMES),
        phase=st.sampled_from(Phase),
        since_ms=st.integers(0, 10),
        running=st.integers(0, 20),
        queued=st.integers(0, 5),
        idle_ms=st.none() | st.integers(0, 30_000),
    )
    return st.lists(one, max_size=5, unique_by=lambda r: r.id).map(tuple)


class AnyWorld(RuleBasedStateMachine):
    """The autoscaler fed with views that need not make sense, and with some of a world that obeys,
    without which no way down comes to its end."""

    reached: ClassVar[Counter[str]] = Counter()

    @initialize(knobs=knobs(), count=st.integers(0, 7))
    def begin(self, knobs: Knobs, count: int) -> None:
        self.knobs = knobs
        self.memory = PoolMemory(target=count, cold_start_ms=1_000)
        self.before = self.memory
        self.at_ms = 0
        self.view: PoolView | None = None
        self.decision: ScaleDecision | None = None

    @rule(
        step_ms=st.integers(0, 30_000),
        seen=replicas(),
        waiting=st.integers(0, 100),
        failure=st.none() | st.just("cannot be built"),
        deaths=st.lists(st.integers(0, 100_000), max_size=4).map(tuple),
    )
    def look(
        self,
        step_ms: int,
        seen: tuple[ReplicaView, ...],
        waiting: int,
        failure: str | None,
        deaths: tuple[int, ...],
    ) -> None:
        self.at_ms += step_ms
        self.view = PoolView(self.at_ms, seen, waiting, failure, deaths)
        self.before = self.memory
        self.memory, self.decision = decide(self.view, self.memory, self.knobs)

    @rule(step_ms=st.integers(0, 30_000), looks=st.integers(1, 6), waiting=st.integers(0, 3))
    def look_at_a_world_that_obeys(self, step_ms: int, looks: int, waiting: int) -> None:
        """It has as many idle replicas as it was told to have, and those refuse that were told to;
        callers come with the last look."""
        for left in reversed(range(looks)):
            refusing = self.decision.refusing if self.decision else frozenset[str]()
            seen = tuple(
                ReplicaView(
                    name,
                    Phase.DRAINING if name in refusing else Phase.WARM,
                    since_ms=place,
                    idle_ms=10**9,
                )
                for place, name in enumerate(NAMES[: self.memory.target])
            )
            self.look(step_ms, seen, 0 if left else waiting, None, ())
            self._count()
            if left:
                for holds in (
                    self.target_is_inside_the_bounds_or_zero_in_quarantine,
                    self.a_cold_pool_starts_on_demand_alone_and_as_many_as_are_needed,
                    self.working_replicas_are_never_given_up,
                    self.only_leaving_replicas_refuse,
                ):
                    holds()

    @rule(step_ms=st.integers(0, 30_000))
    def rest_until_zero_and_be_called(self, step_ms: int) -> None:
        """Nobody calls until every replica that may go has gone, and then one caller comes."""
        for _ in NAMES:
            self.look_at_a_world_that_obeys(step_ms, 6, 0)
        self.look_at_a_world_that_obeys(step_ms, 1, 1)

    def _count(self) -> None:
        assert self.decision is not None
        self.reached[self.decision.reason] += 1
        given_up = self.decision.target < self.before.target
        self.reached["given up"] += given_up and self.decision.reason is Reason.DRAINED
        self.reached["to zero"] += given_up and self.decision.target == 0

    @invariant()
    def target_is_inside_the_bounds_or_zero_in_quarantine(self) -> None:
        if self.decision is None:
            return
        if self.decision.reason is Reason.QUARANTINED:
            assert self.decision.target == 0
        else:
            assert self.knobs.min_replicas <= self.decision.target <= self.knobs.max_replicas

    @invariant()
    def decision_and_memory_agree(self) -> None:
        if self.decision is not None:
            assert self.decision.target == self.memory.target

    @invariant()
    def a_cold_pool_starts_on_demand_alone_and_as_many_as_are_needed(self) -> None:
        if self.decision is None or self.before.target > 0 or self.decision.target == 0:
            return
        assert self.view is not None
        if self.knobs.min_replicas == 0:
            assert self.view.waiting > 0
            terms = self.decision.terms
            assert terms is not None
            assert self.decision.target == min(max(terms.needed, 1), self.knobs.max_replicas)

    @invariant()
    def working_replicas_are_never_given_up(self) -> None:
        """A lower target, bounds and failures aside, finds its leaving replicas without work."""
        if (
            self.decision is None
            or self.view is None
            or self.decision.reason
            in (
                Reason.BOUNDS,
                Reason.QUARANTINED,
            )
        ):
            return
        if self.decision.target < self.before.target:
            assert self.decision.reason is Reason.DRAINED
            leaving = [r for r in self.view.replicas if r.id in self.decision.leaving]
            assert all(r.phase is Phase.DRAINING for r in leaving)
            assert all(r.running + r.queued == 0 for r in leaving)
            assert self.decision.target > 0 or self.view.waiting == 0

    @invariant()
    def only_leaving_replicas_refuse(self) -> None:
        if self.decision is not None:
            assert self.decision.refusing <= self.decision.leaving

    @invariant()
    def every_decision_says_why(self) -> None:
        if self.decision is not None:
            assert self.decision.detail


def test_laws_hold_in_any_world() -> None:
    AnyWorld.reached.clear()
    run_state_machine_as_test(
        AnyWorld, settings=settings(max_examples=80, stateful_step_count=25, deadline=None)
    )
    reached = AnyWorld.reached
    for state in (Reason.DRAINING, Reason.DRAINED, "given up", "to zero", Reason.DEMAND):
        assert reached[state] >= 20, reached


@settings(max_examples=80, deadline=None)
@given(
    knobs=knobs(),
    seen=replicas(),
    waiting=st.integers(0, 50),
    target=st.integers(0, 5),
    step_ms=st.integers(50, 2_000),
)
def test_under_a_constant_view_the_target_does_not_turn_twice(
    knobs: Knobs, seen: tuple[ReplicaView, ...], waiting: int, target: int, step_ms: int
) -> None:
    memory = PoolMemory(target=target, cold_start_ms=1_000)
    targets = [target]
    for tick in range(120):
        view = PoolView(tick * step_ms, seen, waiting)
        memory, decision = decide(view, memory, knobs)
        if decision.reason is Reason.QUARANTINED:
            return  # nothing ever answers here: starts and pauses take turns by design
        if decision.target != targets[-1]:
            targets.append(decision.target)
    turns = sum(
        (b - a) * (c - b) < 0 for a, b, c in zip(targets, targets[1:], targets[2:], strict=False)
    )
    assert turns <= 1, targets
