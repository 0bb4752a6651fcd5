"""Processes that are forked from one that has imported everything already.

An interpreter that begins anew spends longer on its imports than a command on its work, or a world
of processes on twenty calls. What is forked is a process like any other: it has its own arguments,
variables and files, runs `main` of a part or command, and is killed and waited for.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import forkserver, get_context
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

FORKED = get_context("forkserver")
FORKED.set_forkserver_preload(["tests.preloaded"])
ROOT = Path(__file__).parents[1]
LOOK_EVERY_S = 0.01
STDERR = 2


class Process:
    """Runs `entry(*arguments)` in the project's folder and ends with the test run."""

    def __init__(
        self, entry: Callable[..., object], *arguments: object, env: Mapping[str, str]
    ) -> None:
        self._entry, self._arguments, self._env = entry, arguments, dict(env)

    def _begin(self, stdout: int, stderr: int) -> None:
        """With these as its own."""
        target = (_Files(stdout, stderr), self._env, self._entry, self._arguments)
        self._process = FORKED.Process(target=_run, args=target, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None, "it has been started"
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Nothing, where it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Child(Process):
    """For a test with a loop: stdout is read here, stderr is added to a file."""

    def __init__(
        self, entry: Callable[..., object], *arguments: object, env: Mapping[str, str]
    ) -> None:
        super().__init__(entry, *arguments, env=env)
        self.stdout = asyncio.StreamReader()

    async def start(self, log: Path) -> None:
        reading, writing = os.pipe()
        with log.open("ab") as stderr:
            await asyncio.to_thread(self._begin, writing, stderr.fileno())
        os.close(writing)
        self._pipe = os.fdopen(reading, "rb", buffering=0)
        protocol = asyncio.StreamReaderProtocol(self.stdout)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._pipe)

    async def wait(self) -> int:
        while (status := self.returncode) is None:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(LOOK_EVERY_S)
        return status


class Part(Process):
    """For a test without one: it says everything to a file, or its stdout is read here, and its
    stderr too `with_stderr`."""

    stdout: IO[bytes]
    stderr: IO[bytes]

    def __init__(
        self,
        entry: Callable[..., object],
        *arguments: object,
        env: Mapping[str, str],
        log: IO[bytes] | None = None,
        with_stderr: bool = False,
    ) -> None:
        super().__init__(entry, *arguments, env=env)
        if log is not None:
            self._begin(log.fileno(), log.fileno())
            return
        with ExitStack() as beginning:
            self.stdout, stdout = _pipe(beginning)
            stderr = STDERR
            if with_stderr:
                self.stderr, stderr = _pipe(beginning)
            self._begin(stdout, stderr)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise TimeoutError(f"{self.pid} does not end")
        return self.returncode


def _pipe(beginning: ExitStack) -> tuple[IO[bytes], int]:
    """The end that is read, and the other one until the child has it."""
    reading, writing = os.pipe()
    beginning.callback(os.close, writing)
    return os.fdopen(reading, "rb"), writing


def sluice(
    *arguments: str, env: Mapping[str, str], timeout: float = 100.0
) -> subprocess.CompletedProcess[str]:
    """A command as a user's shell would run it, to its end."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        command = Process(_command, arguments, env=env)
        command._begin(stdout.fileno(), stderr.fileno())
        command._process.join(timeout)
        status = command.returncode
        if status is None:
            command.kill()
            raise subprocess.TimeoutExpired(["sluice", *arguments], timeout)
        output, errors = (_read(file) for file in (stdout, stderr))
    return subprocess.CompletedProcess(["sluice", *arguments], status, output, errors)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@dataclass(frozen=True, slots=True)
class _Files:
    """What a child is to have as stdout and stderr; on the way there they get other numbers."""

    stdout: int
    stderr: int

    def __reduce__(self) -> tuple[Callable[..., _Files], tuple[Any, Any]]:
        return _taken, (DupFd(self.stdout), DupFd(self.stderr))


def _taken(stdout: Any, stderr: Any) -> _Files:
    return _Files(stdout.detach(), stderr.detach())


def _run(
    files: _Files, env: dict[str, str], entry: Callable[..., object], arguments: tuple[object, ...]
) -> None:
    """In the child, which has nothing of its parent but what that has imported. The parent ends
    with the test run, once no child holds the pipe that says so, and the child with its parent."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]
    for own, ours in ((1, files.stdout), (2, files.stderr)):
        os.dup2(ours, own)
        os.close(ours)
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(env)
    del sys.argv[1:]
    entry(*arguments)


def gateway_main() -> None:
    from gateway.server.process import main

    sys.exit(main())


def ledger_main() -> None:
    from billing.__main__ import main

    sys.exit(main())


def _command(arguments: tuple[str, ...]) -> None:
    from gateway.cli import main

    main(arguments, prog_name="sluice")
