"""What a replica is told of its checkpoint, and a node of its store."""

from dataclasses import dataclass

FOLDER, GB, OWN = "SLUICE_WEIGHTS", "SLUICE_WEIGHTS_GB", "SLUICE_WEIGHTS_OWN"
"""Variables of a node: the folder of its store, the bound of it, and whether nothing is read from
any other folder."""
SHARED = "shared"
"""The folder of nodes that have no disk of their own."""


@dataclass(frozen=True, slots=True)
class WantedWeights:
    """A checkpoint by its id. `gateway`: the address of one whose store has its manifest, and its
    files unless `source` names where they are. `gb`: the bound of a store that has no other."""

    id: str
    gateway: str
    source: str | None = None
    gb: float | None = None
