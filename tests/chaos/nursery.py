"""Where the processes of a world come from: forked from one that has imported everything already.

An interpreter that begins anew spends longer on its imports than a world on twenty calls, and a
world is killed and begun again all the time. Owns the pipe that a process talks through; what it
runs stands in `edge_process`, `gateway_process` and `ledger_process`.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

FORKED = get_context("forkserver")
FORKED.set_forkserver_preload(
    [f"tests.chaos.{name}_process" for name in ("edge", "ledger", "gateway")]
)
LOOK_EVERY_S = 0.01


class Child:
    """A process that runs `entry(*asked)` and ends with the test run; its stdout is read here, its
    stderr is added to a file."""

    def __init__(self, entry: Callable[..., object], *asked: object, env: dict[str, str]) -> None:
        self._entry, self._asked, self._env = entry, asked, env
        self.stdout = asyncio.StreamReader()

    async def start(self, log: Path) -> None:
        ours, theirs = FORKED.Pipe(duplex=False)
        with theirs:
            asked = (theirs, log, self._env, self._entry, self._asked)
            self._process = FORKED.Process(target=_run, args=asked, daemon=True)
            await asyncio.to_thread(self._process.start)
        reading = asyncio.StreamReaderProtocol(self.stdout)
        self._pipe = os.fdopen(os.dup(ours.fileno()), "rb", buffering=0)
        ours.close()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: reading, self._pipe)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it has been started"
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing, where it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        while (status := self._process.exitcode) is None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(LOOK_EVERY_S)
        return status


def _run(
    stdout: Connection,
    log: Path,
    env: dict[str, str],
    entry: Callable[..., object],
    asked: tuple[object, ...],
) -> None:
    """In the child, which has nothing of its parent but what that has imported."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.dup2(stdout.fileno(), 1)
    stdout.close()
    with log.open("ab") as told:
        os.dup2(told.fileno(), 2)
    os.environ.clear()
    os.environ.update(env)
    del sys.argv[1:]
    entry(*asked)
