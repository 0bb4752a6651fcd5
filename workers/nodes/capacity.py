"""How many nodes of a type may be alive at an instant: a recorded trace of a market, in a file.

The shape is that of SkyPilot's spot traces: `{"metadata": {"gap_seconds": 195}, "data": [1, 0]}`.
A trace that ends starts again. Pure, but for reading the file."""

from pathlib import Path
from typing import Annotated

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]


class BadCapacityFile(ValueError):
    """What is wrong with a file, in one line."""


class Metadata(msgspec.Struct, frozen=True):
    gap_seconds: Annotated[float, msgspec.Meta(gt=0)]


class CapacityTrace(msgspec.Struct, frozen=True):
    """`data`: how many there may be, one count for each `gap_seconds`."""

    metadata: Metadata
    data: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1)]

    def at(self, elapsed_s: float, *, speed: float = 1.0) -> int:
        """The count at an instant of a trace that runs `speed` times as fast as it was recorded."""
        step = int(max(0.0, elapsed_s) * speed / self.metadata.gap_seconds)
        return self.data[step % len(self.data)]


def read_capacity(path: Path) -> CapacityTrace:
    """Raises BadCapacityFile."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=CapacityTrace)
    except OSError as unreadable:
        raise BadCapacityFile(f"{path}: {unreadable.strerror}") from unreadable
    except msgspec.DecodeError as broken:
        raise BadCapacityFile(f"{path}: {broken}") from broken
