"""Starts by stage, over several controllers."""

import msgspec

from workers.autoscaling.stages import Stage, StageCount
from workers.controller.fleet_publisher import Fleet, PoolEntry, ReplicaEntry
from workers.controller.round.starts import Starts


def replica(id: str, stage: Stage | None) -> ReplicaEntry:
    state = "WARM" if stage is None else "STARTING"
    return ReplicaEntry(id, "", state, 0, 0, 0, stage=stage)


def test_each_stage_of_a_start_counts_once_with_its_time() -> None:
    starts = Starts()
    starts.note("p", [replica("r", Stage.SPARE)], 1_000)
    starts.note("p", [replica("r", Stage.SPARE)], 1_500)
    starts.note("p", [replica("r", Stage.LOAD)], 2_000)
    counts = starts.note("p", [replica("r", None)], 2_250)
    assert counts == {Stage.SPARE: StageCount(1, 1.0), Stage.LOAD: StageCount(1, 0.25)}
    assert starts.note("p", [], 9_000) == counts


def test_next_controller_counts_on_and_counts_no_start_twice() -> None:
    first = Starts()
    first.note("p", [replica("r", Stage.LOAD)], 1_000)
    entries = (replica("r", Stage.LOAD),)
    counts = first.note("p", entries, 2_000)
    fleet = Fleet(1, 1, 2_000, "first", (PoolEntry("p", 1, "", 1.0, 0, entries, stages=counts),))
    second = Starts()
    second.begin(msgspec.json.decode(msgspec.json.encode(fleet), type=Fleet))
    assert second.note("p", entries, 3_000) == {Stage.LOAD: StageCount(1, 2.0)}
