"""Replacing the replicas of a pool: laws first, then the stories they are made of.

The world obeys as Ray Serve does: it starts and stops replicas to the count it was told, keeps a
generation until it is let go, and loses replicas now and then. The controller may forget
everything at any time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from workers.autoscaling.generations import (
    Generation,
    Succession,
    SuccessionDecision,
    succeed,
)
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, ReplicaView

KNOBS = Knobs(
    min_replicas=0,
    max_replicas=3,
    slots=2,
    idle_ms=5_000,
    up_delay_ms=500,
    settle_ms=600,
    drain_timeout_ms=3_000,
    start_timeout_ms=20_000,
    start_attempts=3,
    backoff_ms=1_000,
    backoff_max_ms=8_000,
)
PATIENCE_MS = 10_000


@dataclass
class Replica:
    id: str
    phase: Phase = Phase.STARTING
    running: int = 0
    born_ms: int = 0
    active_ms: int = 0


@dataclass
class App:
    """One generation in the cluster; a broken one never becomes warm."""

    count: int = 1
    replicas: list[Replica] = field(default_factory=list)
    broken: bool = False
    deaths_ms: list[int] = field(default_factory=list)


class World:
    """A cluster and its controller."""

    def __init__(self) -> None:
        self.at_ms = 0
        self.waiting = 0
        self.apps: dict[str, App] = {}
        self.broken: set[str] = set()
        self.wanted = "g0"
        self.knobs = KNOBS
        self.ids = 0
        self.died: set[str] = set()
        self.cut_short: list[str] = []
        self.published: dict[str, Phase] = {}
        self.before: dict[str, Phase] = {}
        self.decision: SuccessionDecision | None = None
        self.forget()
        self.done: frozenset[str] = frozenset()

    def forget(self) -> None:
        self.memories: dict[str, PoolMemory] = {}
        self.succession = Succession()
        self.done = frozenset()

    def want(self, name: str, *, broken: bool = False) -> None:
        self.wanted = name
        if broken:
            self.broken.add(name)

    def round(self, step_ms: int = 300) -> SuccessionDecision:
        """Deploy, look, decide, write, publish, tell: as the reconciler does."""
        self.at_ms += step_ms
        self._deploy()
        names = [self.wanted, *(name for name in self.apps if name != self.wanted)]
        generations = {name: self._generation(name) for name in names}
        self.succession, memories, decision = succeed(
            generations[self.wanted],
            [generations[name] for name in names[1:]],
            self.succession,
            self.knobs,
            waiting=self.waiting,
            patience_ms=PATIENCE_MS,
        )
        self.memories |= memories
        self.decision, self.done = decision, decision.done
        self.cut_short += [
            name
            for name in decision.done
            if any(r.running for r in self.apps[name].replicas)
            and self.at_ms - self.succession.leaving_since_ms[name] <= PATIENCE_MS
        ]
        for name, scale in decision.scales.items():
            self._scale(name, scale.target)
        self.before, self.published = self.published, dict(decision.shown)
        for replica in self.replicas():
            if replica.phase is not Phase.STARTING:
                refusing = replica.id in decision.refusing
                replica.phase = Phase.DRAINING if refusing else Phase.WARM
        return decision

    def rounds(self, count: int, step_ms: int = 300) -> SuccessionDecision:
        for _ in range(count - 1):
            self.round(step_ms)
        return self.round(step_ms)

    def load(self, name: str) -> None:
        """Every replica of a generation that can becomes warm."""
        for replica in self.apps[name].replicas:
            if replica.phase is Phase.STARTING and not self.apps[name].broken:
                replica.phase = Phase.WARM
                replica.active_ms = self.at_ms

    def kill(self, name: str) -> None:
        for replica in self.apps[name].replicas:
            self.died.add(replica.id)
            self.apps[name].deaths_ms.append(replica.born_ms)
        self.apps[name].replicas = []
        self._scale(name, self.apps[name].count)

    def replicas(self) -> list[Replica]:
        return [replica for app in self.apps.values() for replica in app.replicas]

    def warm(self) -> set[str]:
        return {id for id, phase in self.published.items() if phase is Phase.WARM}

    def _deploy(self) -> None:
        for name in self.done - {self.wanted}:
            self.apps.pop(name, None)
        if self.wanted not in self.apps:
            target = 0 if self.apps else 1
            self.memories.setdefault(self.wanted, PoolMemory(target=target, cold_start_ms=1_000))
            self.apps[self.wanted] = App(broken=self.wanted in self.broken)
            self._scale(self.wanted, 1)

    def _scale(self, name: str, target: int) -> None:
        app = self.apps[name]
        app.count = target
        while len(app.replicas) < target:
            self.ids += 1
            app.replicas.append(Replica(f"r{self.ids}", born_ms=self.at_ms, active_ms=self.at_ms))
        for gone in app.replicas[target:]:
            self.died.add(gone.id)
        del app.replicas[target:]

    def _generation(self, name: str) -> Generation:
        app = self.apps[name]
        memory = self.memories.get(name) or PoolMemory(target=app.count, cold_start_ms=1_000)
        return Generation(
            name, PoolView(self.at_ms, tuple(self._views(app)), 0, **_deaths(app)), memory
        )

    def _views(self, app: App) -> Iterable[ReplicaView]:
        for r in app.replicas:
            idle = None if r.phase is Phase.STARTING else self.at_ms - r.active_ms
            yield ReplicaView(r.id, r.phase, r.born_ms, running=r.running, idle_ms=idle)


def _deaths(app: App) -> dict[str, tuple[int, ...]]:
    return {"deaths_ms": tuple(app.deaths_ms)}


class Life(RuleBasedStateMachine):
    """Weights come and go, calls run, replicas die, controllers forget."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @initialize(least=st.integers(0, 2))
    def begin(self, least: int) -> None:
        self.world.knobs = replace(KNOBS, min_replicas=least)

    @rule(step_ms=st.sampled_from([200, 700]))
    def controller_looks(self, step_ms: int) -> None:
        self.world.round(step_ms)

    @rule(number=st.integers(0, 3), broken=st.booleans())
    def weights_change(self, number: int, broken: bool) -> None:
        name = f"g{number}"
        if name not in self.world.apps:
            self.world.broken.discard(name)
        self.world.want(name, broken=broken and name not in self.world.apps)

    @rule()
    def replicas_load(self) -> None:
        for name in self.world.apps:
            self.world.load(name)

    @precondition(lambda self: bool(self._loading()))
    @rule(data=st.data())
    def one_replica_loads(self, data: st.DataObject) -> None:
        replica = data.draw(st.sampled_from(self._loading()))
        replica.phase, replica.active_ms = Phase.WARM, self.world.at_ms

    @rule(data=st.data())
    def generation_dies(self, data: st.DataObject) -> None:
        if self.world.apps:
            self.world.kill(data.draw(st.sampled_from(sorted(self.world.apps))))

    @rule()
    def controller_restarts(self) -> None:
        self.world.forget()

    @rule()
    def callers_come_and_go(self) -> None:
        self.world.waiting = 1 - min(1, self.world.waiting)

    @precondition(lambda self: self.world.warm())
    @rule(data=st.data())
    def call_is_dispatched(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.world.warm())))
        for replica in self.world.replicas():
            if replica.id == chosen and replica.phase is Phase.WARM:
                replica.running += 1

    @rule()
    def calls_end(self) -> None:
        for replica in self.world.replicas():
            if replica.running:
                replica.running, replica.active_ms = 0, self.world.at_ms

    @invariant()
    def warm_replicas_are_taken_away_only_for_as_many_others(self) -> None:
        """Unless they died, or the pool itself is on its way down."""
        decision = self.world.decision
        if decision is None:
            return
        before = {id for id, phase in self.world.before.items() if phase is Phase.WARM}
        still = before - self.world.died
        taken = still - self.world.warm()
        leaving = frozenset[str]().union(*(s.leaving for s in decision.scales.values()))
        own = {r.id for r in self.world.apps[decision.serving].replicas}
        if taken - leaving - own:
            assert len(self.world.warm()) >= len(still - leaving)

    @invariant()
    def only_one_generation_is_open_for_calls(self) -> None:
        decision = self.world.decision
        if decision is not None:
            names = {
                name
                for name, app in self.world.apps.items()
                if any(r.id in self.world.warm() for r in app.replicas)
            }
            assert names <= {decision.serving}

    @invariant()
    def every_count_is_inside_the_bounds(self) -> None:
        decision = self.world.decision
        if decision is None:
            return
        assert len(decision.scales) <= 2
        for scale in decision.scales.values():
            least = 0 if scale.quarantined_until_ms is not None else self.world.knobs.min_replicas
            serving = decision.scales[decision.serving]
            rising_behind_quarantine = serving.quarantined_until_ms is not None
            assert scale.target <= self.world.knobs.max_replicas
            assert scale.target >= least or rising_behind_quarantine

    @invariant()
    def who_serves_and_who_is_wanted_are_never_let_go(self) -> None:
        decision = self.world.decision
        if decision is not None:
            assert decision.serving not in decision.done
            assert decision.serving in self.world.apps

    @invariant()
    def nothing_at_work_is_let_go_before_its_time(self) -> None:
        assert self.world.cut_short == []

    def _loading(self) -> list[Replica]:
        apps = [app for app in self.world.apps.values() if not app.broken]
        return [r for app in apps for r in app.replicas if r.phase is Phase.STARTING]


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


def warm_world(count: int = 1) -> World:
    world = World()
    world.knobs = replace(KNOBS, min_replicas=count)
    world.rounds(3)
    world.load("g0")
    world.rounds(2)
    assert len(world.warm()) == count
    return world


def test_old_ones_serve_until_as_many_new_ones_are_warm() -> None:
    world = warm_world(2)
    old = world.warm()
    world.want("g1")
    decision = world.rounds(3)
    assert decision.serving == "g0" and world.warm() == old
    assert decision.detail == "being replaced, 0 of 2 new replicas are warm"
    assert {world.published[r.id] for r in world.apps["g1"].replicas} == {Phase.STARTING}
    world.load("g1")
    decision = world.round()
    assert decision.serving == "g1"
    assert world.warm() == {r.id for r in world.apps["g1"].replicas}
    assert {world.published[id] for id in old} == {Phase.DRAINING}
    assert decision.detail == "replaced, 2 old replicas finish their calls"


def test_one_of_two_is_not_enough() -> None:
    world = warm_world(2)
    old = world.warm()
    world.want("g1")
    world.rounds(3)
    world.apps["g1"].replicas[0].phase = Phase.WARM
    assert world.rounds(3).serving == "g0" and world.warm() == old


def test_old_ones_refuse_after_a_while_and_go_when_their_calls_have_ended() -> None:
    world = warm_world()
    [old] = world.apps["g0"].replicas
    old.running = 1
    world.want("g1")
    world.rounds(2)
    world.load("g1")
    assert old.id not in world.round().refusing, "gateways still send by an older picture"
    assert old.id in world.rounds(3).refusing
    assert world.rounds(5).done == frozenset()
    old.running = 0
    assert world.round().done == {"g0"}
    world.round()
    assert set(world.apps) == {"g1"}


def test_old_ones_that_never_end_go_after_their_patience() -> None:
    world = warm_world()
    world.apps["g0"].replicas[0].running = 1
    world.want("g1")
    world.rounds(2)
    world.load("g1")
    world.rounds(PATIENCE_MS // 1_000 + 3, step_ms=1_000)
    assert set(world.apps) == {"g1"}


def test_broken_new_ones_leave_the_old_ones_serving_and_say_so() -> None:
    world = warm_world()
    old = world.warm()
    world.want("g1", broken=True)
    world.rounds(2)
    for _ in range(3):
        world.apps["g1"].deaths_ms.append(world.at_ms)
    world.apps["g1"].replicas.clear()
    decision = world.round()
    assert decision.serving == "g0" and world.warm() == old
    assert decision.detail.startswith(
        "the replacement does not start, so the old replicas serve on"
    )
    assert decision.scales["g1"].target == 0
    assert decision.scales["g0"].target == 1
    world.want("g2")
    world.rounds(2)
    world.load("g2")
    world.rounds(6)
    assert set(world.apps) == {"g2"} and len(world.warm()) == 1


def test_pool_that_went_to_zero_behind_broken_weights_starts_the_old_ones_again() -> None:
    world = warm_world()
    world.want("g1", broken=True)
    world.rounds(2)
    world.kill("g1")
    world.kill("g1")
    world.kill("g1")
    world.apps["g1"].replicas.clear()
    world.round()
    world.knobs = KNOBS
    world.rounds(60)
    assert not world.warm() and world.apps["g0"].count == 0
    world.waiting = 1
    world.rounds(2)
    world.load("g0")
    world.waiting = 0
    assert world.round().serving == "g0" and len(world.warm()) == 1


def test_old_ones_that_die_meanwhile_are_waited_for() -> None:
    """As long as the new one does not start, only the old one can come back."""
    world = warm_world()
    world.want("g1", broken=True)
    world.rounds(2)
    world.kill("g0")
    world.rounds(3)
    world.load("g0")
    assert world.round().serving == "g0" and len(world.warm()) == 1


def test_pool_at_zero_starts_nothing_and_forgets_the_old_generation() -> None:
    world = World()
    world.memories["g0"] = PoolMemory(target=0, cold_start_ms=1_000)
    world.rounds(3)
    assert not world.replicas()
    world.want("g1")
    decision = world.rounds(3)
    assert (decision.serving, set(world.apps), world.replicas()) == ("g1", {"g1"}, [])
    world.waiting = 1
    assert world.round().scales["g1"].target == 1


def test_restarted_controller_goes_on_where_another_stopped() -> None:
    world = warm_world()
    world.want("g1")
    world.rounds(2)
    world.forget()
    assert world.round().serving == "g0"
    world.load("g1")
    assert world.round().serving == "g1"
    world.apps["g0"].replicas[0].running = 1
    world.forget()
    decision = world.rounds(4)
    assert decision.serving == "g1"
    assert set(world.apps) == {"g0", "g1"}, "its call still runs"


def test_going_back_before_the_new_ones_are_warm_changes_nothing_for_callers() -> None:
    world = warm_world()
    old = world.warm()
    world.want("g1")
    world.rounds(2)
    world.want("g0")
    world.rounds(3)
    assert world.warm() == old and set(world.apps) == {"g0"}


def test_going_back_afterwards_takes_up_the_replica_that_still_drains() -> None:
    world = warm_world()
    [old] = world.apps["g0"].replicas
    old.running = 1
    world.want("g1")
    world.rounds(2)
    world.load("g1")
    world.rounds(4)
    assert old.phase is Phase.DRAINING
    world.want("g0")
    world.rounds(2)
    assert world.warm() == {old.id}
