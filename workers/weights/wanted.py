"""What a replica is told of its checkpoint, and a node of its store. Every replica imports it, so
it imports next to nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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


class WeightsHold(Protocol):
    """It ends with `close`, or with the process."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class WeightsHere:
    """Hold it as long as the folder is used. `fetch_s`: how long the fetch took."""

    folder: Path
    fetch_s: float = 0.0
    lease: WeightsHold | None = None
