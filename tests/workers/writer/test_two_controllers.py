"""Two controllers, either one paused anywhere: they never both write.

The controllers' way to the writer and the writer are the real ones. Redis, HTTP and the cluster are
played: each step of them waits until Hypothesis takes it. A paused controller believes for ever
that it leads, as if it had been stopped right after it looked.
"""

import asyncio
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workers.ray.file import RayFile
from workers.ray.session import Session
from workers.settings import WorkersSettings
from workers.writer.controller_writes import ControllerWrites
from workers.writer.service import LeaderRefused, Writer
from workers.writer.writes import NOBODY, Leader, Order, SetReplicas, Write

NAMES = ("first", "second")
PLACE = RayFile("", "", "", 0, (0, 0), "", Session(1, 0.0), writer_url="http://writer")
TURNS = 20
"""Of the event loop: more than there are between two pauses."""
Pause = Callable[[], "asyncio.Future[None]"]


class PlayedRedis:
    """What the scripts of `workers.controller.lease` do."""

    def __init__(self) -> None:
        self.lease: str | None = None
        self.last = NOBODY

    def hold(self, holder: str) -> Leader | None:
        if self.lease not in (None, holder):
            return None
        self.lease = holder
        if self.last.holder != holder:
            self.last = Leader(self.last.epoch + 1, holder)
        return self.last

    def rise_above(self, holder: str, highest: int) -> bool:
        if self.lease != holder:
            return False
        self.last = Leader(max(self.last.epoch, highest) + 1, holder)
        return True


class Cluster:
    """The disk of the writer and the cluster: `history` is what came there, in order."""

    def __init__(self) -> None:
        self.history: list[Leader] = []
        self.leader = NOBODY
        self.pause: Pause

    async def read(self) -> Leader:
        return self.leader

    async def put(self, leader: Leader) -> None:
        await self.pause()
        self.leader = leader
        self.history.append(leader)

    async def apply(self, write: Write) -> None:
        await self.pause()
        if isinstance(write, SetReplicas):
            self.history.append(Leader(write.count, write.app))


class PlayedController:
    def __init__(self, name: str, world: "TwoControllers") -> None:
        self.name = name
        self.world = world
        self.believes: Leader | None = None
        self.gate: asyncio.Future[None] | None = None
        self.is_sending = False
        self.writes = ControllerWrites(WorkersSettings(), None, lambda: self.believes)  # type: ignore[arg-type]
        self.writes._writer = lambda url: self  # type: ignore[method-assign,assignment,return-value]

    def pause(self) -> "asyncio.Future[None]":
        self.gate = asyncio.get_running_loop().create_future()
        return self.gate

    async def live(self) -> None:
        while True:
            await self.pause()
            before, self.believes = self.believes, self.world.redis.hold(self.name)
            if self.believes is None:
                continue
            if self.believes != before:
                self.writes.begin(self.believes)
            try:
                await self._round(self.believes)
            except LeaderRefused as refused:
                if not self.world.redis.rise_above(self.name, refused.highest.epoch):
                    self.believes = None

    async def _round(self, leader: Leader) -> None:
        await self.pause()
        await self.writes.claim(PLACE)
        await self.pause()
        await self.writes.do(SetReplicas(leader.holder, "engine", leader.epoch))

    async def do(self, leader: Leader, write: Write) -> None:
        """In place of HTTP."""
        await self.pause()
        self.is_sending = True
        self.world.cluster.pause = self.pause
        try:
            await self.world.writer.do(Order(leader, write))
        finally:
            self.is_sending = False
        await self.pause()


class TwoControllers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.redis = PlayedRedis()
        self.cluster = Cluster()
        self.writer = Writer(self.cluster, self.cluster)
        self.controllers = {name: PlayedController(name, self) for name in NAMES}
        self.tasks = [self.loop.create_task(each.live()) for each in self.controllers.values()]
        self._turn()

    def _turn(self) -> None:
        async def turns() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    @rule(name=st.sampled_from(NAMES), steps=st.integers(1, 9))
    def go_on(self, name: str, steps: int) -> None:
        """The other one is paused meanwhile."""
        for _ in range(steps):
            gate = self.controllers[name].gate
            if gate is not None and not gate.done():
                gate.set_result(None)
            self._turn()

    @rule()
    def the_lease_ends(self) -> None:
        self.redis.lease = None

    @rule()
    def redis_is_emptied(self) -> None:
        self.redis.lease, self.redis.last = None, NOBODY

    @precondition(lambda self: not any(each.is_sending for each in self.controllers.values()))
    @rule()
    def the_writer_is_killed(self) -> None:
        self.writer = Writer(self.cluster, self.cluster)

    @invariant()
    def who_was_followed_never_writes_again(self) -> None:
        leads = [
            leader
            for leader, before in zip(
                self.cluster.history, [NOBODY, *self.cluster.history], strict=False
            )
            if leader != before
        ]
        assert len(leads) == len(set(leads)), leads
        epochs = [leader.epoch for leader in leads]
        assert epochs == sorted(set(epochs)), leads

    def teardown(self) -> None:
        for task in self.tasks:
            task.cancel()
        self._turn()
        self.loop.close()


TestTwoControllers = TwoControllers.TestCase
TestTwoControllers.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_the_play_has_writes_of_both() -> None:
    """A law about writes that nobody does would hold as well."""
    world = TwoControllers()
    world.go_on("first", 9)
    world.the_lease_ends()
    world.go_on("second", 9)
    assert [leader.holder for leader in world.cluster.history] == [
        *["first"] * 2,
        *["second"] * 2,
    ]
    world.teardown()
