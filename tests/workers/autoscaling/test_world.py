"""The autoscaler in a small world that obeys it: whatever calls do, none loses its replica.

The world starts, drains and stops replicas as told, stops the newest first as Ray Serve does, and
lets gateways dispatch from a picture that is older than the controller's.
"""

from dataclasses import dataclass, field
from math import ceil

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, Reason, ReplicaView

KNOBS = Knobs(
    min_replicas=0,
    max_replicas=3,
    slots=2,
    idle_ms=2_000,
    up_delay_ms=500,
    settle_ms=600,
    drain_timeout_ms=3_000,
    start_timeout_ms=10**9,
    start_attempts=3,
    backoff_ms=1_000,
    backoff_max_ms=8_000,
)


@dataclass
class Replica:
    id: str
    born_ms: int
    phase: Phase = Phase.STARTING
    running: int = 0
    active_ms: int = 0


@dataclass
class World:
    at_ms: int = 0
    waiting: int = 0
    replicas: list[Replica] = field(default_factory=list)
    ids: int = 0


class PoolLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.memory = PoolMemory(target=0, cold_start_ms=1_000)
        self.leaving: frozenset[str] = frozenset()

    @initialize(warm=st.sampled_from([2, 0, 1, 3]))
    def begin(self, warm: int) -> None:
        self.memory = PoolMemory(target=warm, cold_start_ms=1_000)
        for _ in range(warm):
            self._start()
            self.world.replicas[-1].phase = Phase.WARM

    @rule(step_ms=st.sampled_from([100, 500, 700, 2_500]))
    def controller_looks(self, step_ms: int) -> None:
        world = self.world
        world.at_ms += step_ms
        before = self.memory.target
        self.memory, decision = decide(self._view(), self.memory, KNOBS)
        if before == 0 and decision.target > 0:
            assert decision.target == min(ceil(world.waiting / KNOBS.slots), KNOBS.max_replicas)
        self.leaving = decision.leaving
        for replica in world.replicas:
            if replica.phase is not Phase.STARTING:
                refusing = replica.id in decision.refusing
                replica.phase = Phase.DRAINING if refusing else Phase.WARM
        self._follow(decision.target, decision.reason)

    @rule(times=st.sampled_from([12, 3]))
    def time_passes(self, times: int) -> None:
        for _ in range(times):
            self.controller_looks(500)

    @rule()
    def caller_waits(self) -> None:
        self.world.waiting += 1

    @precondition(lambda self: self.world.waiting > 0)
    @rule()
    def caller_gives_up(self) -> None:
        self.world.waiting -= 1

    @precondition(lambda self: any(r.phase is Phase.STARTING for r in self.world.replicas))
    @rule()
    def replica_loads(self) -> None:
        replica = next(r for r in self.world.replicas if r.phase is Phase.STARTING)
        replica.phase = Phase.WARM
        replica.active_ms = self.world.at_ms

    @precondition(lambda self: any(r.phase is Phase.WARM for r in self.world.replicas))
    @rule(data=st.data(), waited=st.booleans())
    def call_is_dispatched(self, data: st.DataObject, waited: bool) -> None:
        """To any replica that accepts, a leaving one too: pictures are late, refusals are not."""
        warm = [r for r in self.world.replicas if r.phase is Phase.WARM]
        replica = data.draw(st.sampled_from(warm))
        replica.running += 1
        if waited and self.world.waiting:
            self.world.waiting -= 1

    @precondition(lambda self: any(r.running for r in self.world.replicas))
    @rule(data=st.data())
    def call_ends(self, data: st.DataObject) -> None:
        replica = data.draw(st.sampled_from([r for r in self.world.replicas if r.running]))
        replica.running -= 1
        replica.active_ms = self.world.at_ms

    @precondition(lambda self: bool(self.world.replicas))
    @rule()
    def replica_is_killed_and_replaced(self) -> None:
        self.world.replicas.pop(0)
        self._start()

    @invariant()
    def never_more_than_the_maximum(self) -> None:
        assert len(self.world.replicas) <= KNOBS.max_replicas

    def _view(self) -> PoolView:
        now_ms = self.world.at_ms
        seen = tuple(
            ReplicaView(
                r.id,
                r.phase,
                r.born_ms,
                running=r.running,
                idle_ms=None if r.phase is Phase.STARTING else now_ms - r.active_ms,
            )
            for r in self.world.replicas
        )
        return PoolView(now_ms, seen, self.world.waiting)

    def _follow(self, target: int, reason: Reason) -> None:
        while len(self.world.replicas) < target:
            self._start()
        while len(self.world.replicas) > target:
            stopped = self.world.replicas.pop()
            assert stopped.running == 0, f"{stopped.id} was stopped at work: {reason}"

    def _start(self) -> None:
        self.world.ids += 1
        self.world.replicas.append(Replica(f"r{self.world.ids}", born_ms=self.world.ids))


TestPoolLife = PoolLife.TestCase
TestPoolLife.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
