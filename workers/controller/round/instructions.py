"""What replicas are told: to take work, to refuse it, or to refuse it and let go of the model."""

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

from workers.autoscaling.generations import SuccessionDecision
from workers.autoscaling.types import Phase, ReplicaView
from workers.controller.replica_api import ReplicaApi, ReplicaGone, ReplicaSlow
from workers.controller.sighting import Sighting

log = logging.getLogger(__name__)


class Instruction(NamedTuple):
    draining: bool
    asleep: bool


WORK, REFUSE, SLEEP = Instruction(False, False), Instruction(True, False), Instruction(True, True)


def instruction(replica: ReplicaView, decision: SuccessionDecision) -> Instruction | None:
    """None where the replica does so already, or starts. Nobody wakes one that is to go."""
    if replica.phase is Phase.STARTING:
        return None
    refuses = replica.id in decision.refusing
    if replica.phase is Phase.SLEEPING:
        return None if refuses or replica.id in decision.asleep else WORK
    if replica.id in decision.asleep:
        return SLEEP
    return None if (replica.phase is Phase.DRAINING) == refuses else Instruction(refuses, False)


async def instruct(
    replicas: ReplicaApi, seen: Iterable[tuple[Sighting, SuccessionDecision]]
) -> None:
    """Tell each replica that answers what it does not do yet."""
    await asyncio.gather(
        *(
            _tell(replicas, sighting.addresses[replica.id], told)
            for sighting, decision in seen
            for replica in sighting.view.replicas
            if (told := instruction(replica, decision)) is not None
        )
    )


async def _tell(replicas: ReplicaApi, address: str, told: Instruction) -> None:
    try:
        await replicas.drain(address, draining=told.draining, asleep=told.asleep)
    except (ReplicaGone, ReplicaSlow) as deaf:
        log.warning("drain: %s", deaf)
