"""Nodes of this machine stay within the bounds of their types and of the market, whatever Ray asks
for, whatever ends, and whoever goes on where a provider was killed."""

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from ray.autoscaler.node_launch_exception import NodeLaunchException
from ray.autoscaler.tags import TAG_RAY_USER_NODE_TYPE

from workers.nodes.capacity import CapacityTrace, read_capacity
from workers.nodes.folder import MachineNode, NodesFolder, Raylet
from workers.nodes.node_type import HEAD, NodeState, NodeType
from workers.nodes.provider import MachineNodes

NAMES = ("rented", "told", "taken")
GAP_S = 10.0


class Market(RuleBasedStateMachine):
    """`rented` is limited by its `max` alone, `told` follows a trace with a notice, `taken` one
    without. No process runs: a node that is launched may come up, and dies where it does not."""

    reached: ClassVar[Counter[str]] = Counter()

    @initialize(most=st.integers(1, 4), traces=st.lists(st.integers(0, 5), min_size=2, max_size=6))
    def begin(self, most: int, traces: list[int]) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="provider-")
        root = Path(self.folder.name)
        trace = root / "trace.json"
        trace.write_text(json.dumps({"metadata": {"gap_seconds": GAP_S}, "data": traces}))
        self.trace: CapacityTrace = read_capacity(trace)
        self.types = {
            "rented": NodeType(name="rented", max=most),
            "told": NodeType(name="told", max=most, capacity_file=trace, notice_s=15.0),
            "taken": NodeType(name="taken", max=most, capacity_file=trace),
        }
        (root / "nodes").mkdir()
        self.nodes = NodesFolder(root / "nodes")
        self.at_ms = 0
        self.come_on()

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @rule()
    def come_on(self) -> None:
        """Another autoscaler goes on: the one before remembered nothing."""
        config: dict[str, Any] = {
            "folder": str(self.nodes.path),
            "weights_folder": str(self.nodes.path.parent / "weights"),
            "types": [type.model_dump(mode="json") for type in self.types.values()],
            "started_ms": 0,
            "gcs_address": "",
            "node_ip": "127.0.0.1",
            "temp_dir": "",
            "object_store_mb": 80,
        }
        self.provider = MachineNodes(
            config, "sluice", start=lambda order, log, type: None, now_ms=lambda: self.at_ms
        )

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 6))
    def ask(self, name: str, count: int) -> None:
        before, room = len(self._alive(name)), self._room(name)
        tags = {TAG_RAY_USER_NODE_TYPE: name}
        try:
            self.provider.create_node_with_resources_and_labels({}, tags, count, {}, {})
            refused = False
        except NodeLaunchException:
            refused = True
        launched = len(self._alive(name)) - before
        assert launched == max(0, min(count, room - before))
        assert refused == (launched < count), "what did not come was said"
        self.reached["launched"] += launched
        self.reached["refused"] += refused

    @rule(step_s=st.sampled_from((0.5, GAP_S, 70.0)))
    def look(self, step_s: float) -> None:
        """Ray lists its nodes in each round."""
        self.at_ms += round(step_s * 1000)
        alive = [node.launch.id for node in self._alive()]
        listed = self.provider.non_terminated_nodes({})
        assert set(listed) == {HEAD, *(node.launch.id for node in self._alive())}
        assert set(listed) <= {HEAD, *alive}, "a look brings no node"
        for name in NAMES:
            staying = [node for node in self._alive(name) if node.notice is None]
            assert len(staying) <= self._room(name)
        self.reached["lost"] += len(alive) - len(listed) + 1
        self.reached["told"] += any(node.notice for node in self._alive())

    @rule(data=st.data())
    def come_up(self, data: st.DataObject) -> None:
        if launching := [n for n in self._alive() if n.state == NodeState.LAUNCHING]:
            node = data.draw(st.sampled_from(launching))
            self.nodes.note_raylet(node.launch.id, Raylet(1, "id"))

    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        if alive := self._alive():
            node = data.draw(st.sampled_from(alive))
            self.provider.terminate_node(node.launch.id)
            assert not self.provider.is_running(node.launch.id)

    @invariant()
    def no_type_has_more_nodes_than_it_may(self) -> None:
        if hasattr(self, "nodes"):
            for name, type in self.types.items():
                assert len(self._alive(name)) <= type.max

    @invariant()
    def head_is_never_ended(self) -> None:
        if hasattr(self, "provider"):
            self.provider.terminate_node(HEAD)
            assert self.provider.is_running(HEAD)

    def _alive(self, name: str | None = None) -> list[MachineNode]:
        alive = [node for node in self.nodes.nodes() if node.is_alive]
        return [node for node in alive if name in (None, node.launch.type)]

    def _room(self, name: str) -> int:
        most = self.types[name].max
        return most if name == "rented" else min(most, self.trace.at(self.at_ms / 1000))


def test_nodes_stay_within_the_bounds_of_their_type_and_of_the_market() -> None:
    Market.reached.clear()
    run_state_machine_as_test(
        Market, settings=settings(max_examples=40, stateful_step_count=20, deadline=None)
    )
    for what in ("launched", "refused", "lost", "told"):
        assert Market.reached[what] >= 5, Market.reached
