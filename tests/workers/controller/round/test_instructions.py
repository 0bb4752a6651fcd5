"""What each replica is told, by what it does and what it is to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.autoscaling.generations import SuccessionDecision
from workers.autoscaling.types import Phase, ReplicaView
from workers.controller.round.instructions import REFUSE, SLEEP, WORK, Instruction, instruction


def decided(*, refuses: bool, sleeps: bool) -> SuccessionDecision:
    ids, none = frozenset({"r"}), frozenset[str]()
    return SuccessionDecision(
        "p", {}, {}, ids if refuses else none, none, asleep=ids if sleeps else none
    )


@pytest.mark.parametrize(
    ("phase", "refuses", "sleeps", "told"),
    [
        (Phase.WARM, False, False, None),
        (Phase.WARM, True, False, REFUSE),
        (Phase.DRAINING, True, False, None),
        (Phase.DRAINING, False, False, WORK),
        (Phase.DRAINING, True, True, SLEEP),
        (Phase.WARM, False, True, SLEEP),
        (Phase.SLEEPING, True, True, None),
        (Phase.SLEEPING, False, True, None),
        (Phase.SLEEPING, True, False, None),  # it goes cold: nobody wakes it for that
        (Phase.SLEEPING, False, False, WORK),
        (Phase.STARTING, False, True, None),
    ],
)
def test_replica_is_told_what_it_does_not_do_yet(
    phase: Phase, refuses: bool, sleeps: bool, told: Instruction | None
) -> None:
    replica = ReplicaView("r", phase, 0)
    assert instruction(replica, decided(refuses=refuses, sleeps=sleeps)) == told


@given(phase=st.sampled_from(Phase), refuses=st.booleans(), sleeps=st.booleans())
def test_who_did_as_told_is_told_nothing_more(phase: Phase, refuses: bool, sleeps: bool) -> None:
    decision = decided(refuses=refuses or sleeps, sleeps=sleeps)
    told = instruction(ReplicaView("r", phase, 0), decision)
    if told is None:
        return
    after = Phase.SLEEPING if told.asleep else Phase.DRAINING if told.draining else Phase.WARM
    assert instruction(ReplicaView("r", after, 0), decision) is None
