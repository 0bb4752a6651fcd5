"""Secrets by their names: a file of the folder of provider keys, else a variable of the gateway.

A file can be added, changed and removed while gateways run: each reads it anew once a second. Of
other names than those of provider keys there are no files.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.catalog.external import KEY_PREFIX
from routing.types import Clock

READ_AGAIN_S = 1.0
BYTES_MAX = 16_384
NAMES_MAX = 1_000


class KeyFiles(Mapping[str, str]):
    def __init__(self, folder: Path, environment: Mapping[str, str], clock: Clock) -> None:
        self._folder = folder
        self._environment = environment
        self._clock = clock
        self._read: dict[str, tuple[float, str | None]] = {}

    def __getitem__(self, name: str) -> str:
        held = self._of_file(name) if name.startswith(KEY_PREFIX) else None
        return self._environment[name] if held is None else held

    def __iter__(self) -> Iterator[str]:
        return iter(self._environment)

    def __len__(self) -> int:
        return len(self._environment)

    def _of_file(self, name: str) -> str | None:
        now_s = self._clock()
        read_s, held = self._read.get(name, (0.0, None))
        if not read_s <= now_s < read_s + READ_AGAIN_S:
            if len(self._read) >= NAMES_MAX:
                self._read.clear()
            held = _content(self._folder / name)
            self._read[name] = now_s, held
        return held


def _content(path: Path) -> str | None:
    """None: there is none that can be read. An empty one holds no key, whatever a variable does."""
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX).decode().strip()
    except (OSError, ValueError):
        return None
