"""When the autoscaler is asked for nodes: once for each change, and anew by each leader."""

from unittest.mock import AsyncMock, create_autospec

import msgspec

from tests.workers.ray.test_serve_apps import make_pool
from workers.controller.round.prewarming import Prewarming
from workers.nodes.node_type import NodeType
from workers.ray.file import RayFile
from workers.ray.session import Session
from workers.writer.controller_writes import ControllerWrites, Outcome
from workers.writer.writes import RequestNodes

TYPES = (NodeType(name="spot-a", market="spot", zone="a", cpus=2, max=3),)
POOL = make_pool("cheap", "m", capacity_class="spot", zone="a", num_cpus=1.0)
SESSION = Session(1, 1.0)
PLACE = RayFile("", "", "", 1, (1, 2), "/tmp/r", SESSION)
NONE = RequestNodes()


def nodes(count: int) -> RequestNodes:
    return RequestNodes(({"CPU": 2.0},) * count, ({"ray.io/node-group": "spot-a"},) * count)


class Writes:
    """Takes what is asked for, or is away."""

    def __init__(self) -> None:
        self.outcome = Outcome(True)
        self.api = create_autospec(ControllerWrites, instance=True)
        self.api.do = AsyncMock(side_effect=lambda write: self.outcome)

    @property
    def asked(self) -> list[RequestNodes]:
        return [call.args[0] for call in self.api.do.await_args_list]


async def test_nodes_are_asked_for_at_each_change_and_given_back() -> None:
    writes, prewarming = Writes(), Prewarming(TYPES)
    for count in (0, 3, 3, 4, 0, 0):
        await prewarming.ask(writes.api, PLACE, [(POOL, count)])
    assert writes.asked == [NONE, nodes(2), NONE]


async def test_another_leader_and_another_cluster_are_told_anew() -> None:
    writes, prewarming = Writes(), Prewarming(TYPES)
    await prewarming.ask(writes.api, PLACE, [(POOL, 1)])
    prewarming.begin()
    await prewarming.ask(writes.api, PLACE, [(POOL, 1)])
    anew = msgspec.structs.replace(PLACE, session=Session(2, 1.0))
    await prewarming.ask(writes.api, anew, [(POOL, 1)])
    assert writes.asked == [nodes(1)] * 3


async def test_what_the_writer_did_not_take_is_asked_again() -> None:
    writes, prewarming = Writes(), Prewarming(TYPES)
    writes.outcome = Outcome(False)
    await prewarming.ask(writes.api, PLACE, [(POOL, 1)])
    writes.outcome = Outcome(True)
    for _ in range(3):
        await prewarming.ask(writes.api, PLACE, [(POOL, 1)])
    assert writes.asked == [nodes(1)] * 2


async def test_cluster_of_others_and_one_without_nodes_are_asked_for_nothing() -> None:
    writes = Writes()
    joined = msgspec.structs.replace(PLACE, joined="theirs")
    await Prewarming(TYPES).ask(writes.api, joined, [(POOL, 1)])
    await Prewarming(TYPES).ask(writes.api, None, [(POOL, 1)])
    await Prewarming(()).ask(writes.api, PLACE, [(POOL, 1)])
    assert writes.asked == []
