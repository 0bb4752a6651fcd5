"""Processes that a test started do not outlive it, however it dies.

A watcher is a shell that waits at a pipe whose other end is ours: the kernel closes that when this
process ends, also by kill -9, and the watcher ends what it watches. Unlike PR_SET_PDEATHSIG it sees
to processes that are not our children, and does not care which of our threads started them.
"""

from __future__ import annotations

import signal
import subprocess
from types import TracebackType
from typing import Self


class Watched:
    """`pid` gets `how` when this process dies within the block. A context manager."""

    def __init__(self, pid: int, how: signal.Signals = signal.SIGKILL) -> None:
        script = f"trap '' INT TERM HUP; read -r _ || kill -{how.value} {pid}"
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def release(self) -> None:
        """It has ended, or may live on."""
        if self._watcher.stdin is not None and not self._watcher.stdin.closed:
            try:
                self._watcher.stdin.write(b"\n")
                self._watcher.stdin.close()
            except BrokenPipeError:
                pass
            self._watcher.wait(timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _raised: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.release()
