"""Which replica of a pool takes a call: the less loaded of two drawn at random.

Load is what the replica reports or what this gateway has open there, whichever is more: the
report is up to half a second old, our own count is not. Pure; chance is an argument.
"""

from collections.abc import Collection
from random import Random

from routing.types import PoolState, Replica, ReplicaState


def choose_replica(state: PoolState, rng: Random, excluded: Collection[str] = ()) -> Replica | None:
    """A warm replica outside `excluded`, or None. Power of two choices (Mitzenmacher 2001)."""
    warm = [r for r in state.replicas if r.state is ReplicaState.WARM and r.id not in excluded]
    if len(warm) > 2:
        warm = rng.sample(warm, 2)
    return min(warm, key=lambda r: (_load(state, r), rng.random()), default=None)


def _load(state: PoolState, replica: Replica) -> int:
    return max(replica.running + replica.queued, state.in_flight.get(replica.id, 0))
