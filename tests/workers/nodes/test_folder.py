"""Nodes as files: the state follows from what was written, whoever wrote it in whatever order."""

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.nodes.folder import (
    STARTS_WITHIN_MS,
    End,
    Launch,
    MachineNode,
    NodesFolder,
    Notice,
    Process,
    Raylet,
)
from workers.nodes.node_type import NodeState
from workers.nodes.provider import surplus
from workers.ray.session import session_of

LAUNCH = Launch("n-1", "n", {}, at_ms=1_000)


@pytest.fixture
def folder(tmp_path: Path) -> NodesFolder:
    folder = NodesFolder(tmp_path / "nodes")
    folder.launch(LAUNCH)
    return folder


def state(folder: NodesFolder) -> NodeState:
    [node] = folder.nodes()
    return node.state


def test_state_follows_from_what_is_written_in_any_order(tmp_path: Path) -> None:
    writes = {
        NodeState.READY: lambda f: f.note_raylet("n-1", Raylet(7, "ab")),
        NodeState.DRAINING: lambda f: f.note_notice("n-1", Notice(9, "leaves", 1)),
        NodeState.LOST: lambda f: f.note_end("n-1", End(NodeState.LOST, "killed", 9)),
    }
    rank = list(writes)
    for number, order in enumerate(permutations(writes)):
        folder = NodesFolder(tmp_path / str(number))
        folder.launch(LAUNCH)
        assert state(folder) is NodeState.LAUNCHING
        for count, name in enumerate(order, start=1):
            writes[name](folder)
            assert state(folder) is max(order[:count], key=rank.index)


def test_first_word_on_an_end_stays(folder: NodesFolder) -> None:
    folder.note_end("n-1", End(NodeState.GONE, "idle", 5))
    folder.note_end("n-1", End(NodeState.LOST, "its process ended", 6))
    [node] = folder.nodes()
    assert node.end == End(NodeState.GONE, "idle", 5)


def test_process_that_ended_without_a_word_is_a_lost_node(folder: NodesFolder) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    folder.note_process("n-1", Process(session_of(process.pid)))
    folder.note_deaths(now_ms=10**9)
    assert state(folder) is NodeState.LAUNCHING
    process.communicate()
    folder.note_deaths(now_ms=10**9)
    assert state(folder) is NodeState.LOST


def test_node_whose_process_never_was_is_given_up(folder: NodesFolder) -> None:
    folder.note_deaths(LAUNCH.at_ms + STARTS_WITHIN_MS)
    assert state(folder) is NodeState.LAUNCHING
    folder.note_deaths(LAUNCH.at_ms + STARTS_WITHIN_MS + 1)
    assert state(folder) is NodeState.LOST


def test_half_a_node_is_none_and_a_forgotten_one_leaves_nothing(folder: NodesFolder) -> None:
    (folder.path / "half").mkdir()
    assert [node.launch.id for node in folder.nodes()] == ["n-1"]
    folder.forget("n-1")
    assert folder.nodes() == [] and not (folder.path / "n-1").exists()


@given(st.lists(st.booleans(), max_size=6), st.integers(0, 6))
def test_no_more_nodes_stay_than_there_is_capacity_for_and_the_newest_go(
    leaving: list[bool], room: int
) -> None:
    alive = [
        MachineNode(
            Launch(str(n), "n", {}, n), None, None, Notice(9, "x", 1) if is_leaving else None, None
        )
        for n, is_leaving in enumerate(leaving)
    ]
    gone = surplus(alive, room)
    staying = [node for node in alive if node.notice is None and node not in gone]
    assert len(staying) == min(room, leaving.count(False))
    assert all(node.notice is None for node in gone)
    assert all(old.launch.at_ms < new.launch.at_ms for old in staying for new in gone)
