"""What a running process is told without a word: how far its clock is off, and whether its disk is
full. One small file that both sides have mapped."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time
from pathlib import Path

SIZE = 16


class Knobs:
    """Opened by the test, which turns them, and by the process, which reads them."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SIZE)

    @property
    def clock_off_s(self) -> float:
        return float(struct.unpack_from("d", self._map, 0)[0])

    @clock_off_s.setter
    def clock_off_s(self, seconds: float) -> None:
        struct.pack_into("d", self._map, 0, seconds)

    @property
    def disk_is_full(self) -> bool:
        return bool(struct.unpack_from("d", self._map, 8)[0])

    @disk_is_full.setter
    def disk_is_full(self, is_full: bool) -> None:
        struct.pack_into("d", self._map, 8, float(is_full))

    def now(self) -> float:
        """Epoch seconds by the clock that may be off."""
        return time.time() + self.clock_off_s

    def write(self, fd: int, data: bytes) -> int:
        """As os.write, to a disk that may be full: half of it is what a full one still took."""
        if self.disk_is_full:
            written = os.write(fd, data[: len(data) // 2])
            if written < len(data):
                raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, data)
