"""A part: one process in a session of its own, its log file, and how it is told to be ready."""

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from workers.ray.session import Session, end_session, session_of

LOOK_EVERY_S = 0.05
LINE_BYTES_MAX = 4096
CHILDREN_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class PartSpec:
    """What to start. `ready` is searched in each line of output; `needs` must be ready before.

    A part with `once` runs to its end (exit status 0) instead of staying; `doing` is what the
    user reads while it takes long.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: str = ""
    needs: tuple[str, ...] = ()
    doing: str = "starting"
    once: bool = False
    wanted: Callable[[], Awaitable[None]] | None = None
    """Ends once this part is to be started. Everything is ready without it, and a part that does
    not start is tried again and again."""
    memory_bytes_max: int | None = None
    """One that takes more is started again. None: it may have any."""


class PartDied(Exception):
    """It ended before it was ready; the text says how, with its last words."""


class Part:
    """One run of a spec. `start`, then `wait_ready`, then `wait`; `stop` at any time."""

    def __init__(self, spec: PartSpec, log: Path, process: asyncio.subprocess.Process) -> None:
        self.spec = spec
        self.log = log
        self.session = _session(process.pid)
        self._process = process
        self._read_from = 0

    @classmethod
    async def start(cls, spec: PartSpec, log: Path, log_bytes_max: int) -> "Part":
        """Raises OSError if there is nothing to start."""
        with suppress(OSError):
            set_aside(log, log_bytes_max)
        with log.open("ab") as output:
            started_at = output.tell()
            process = await asyncio.create_subprocess_exec(
                *spec.argv,
                env={**os.environ, **spec.env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        part = cls(spec, log, process)
        part._read_from = started_at
        return part

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        return await self._process.wait()

    async def wait_ready(self) -> None:
        """Return once it says so (or has ended well, if it runs once); raises PartDied."""
        if self.spec.once:
            if await self.wait() != 0:
                raise PartDied(self._how_it_ended())
            return
        pattern = re.compile(self.spec.ready.encode())
        while True:
            alive = self._process.returncode is None
            if any(pattern.search(line) for line in self._new_lines()):
                return
            if not alive:
                raise PartDied(self._how_it_ended())
            await asyncio.sleep(LOOK_EVERY_S)

    def tell_to_end(self) -> None:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def stop(self, timeout_s: float) -> None:
        """SIGTERM, a bounded wait, SIGKILL; then nothing of its session is left."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), timeout_s)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        await asyncio.to_thread(end_session, self.session, grace_s=CHILDREN_GRACE_S)

    def _new_lines(self) -> Iterator[bytes]:
        """Whole lines written since the last look."""
        with self.log.open("rb") as file:
            file.seek(self._read_from)
            block = file.read(1 << 20)
        whole = block.rfind(b"\n") + 1
        if not whole and len(block) > LINE_BYTES_MAX:
            whole = len(block)
        self._read_from += whole
        yield from block[:whole].splitlines()

    def _how_it_ended(self) -> str:
        status = self._process.returncode or 0
        how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        words = last_words(self.log)
        return f"{how}{': ' + words if words else ''}"


def _session(pid: int) -> Session:
    """The session that a fresh process leads, even if it has ended meanwhile."""
    try:
        return session_of(pid)
    except psutil.NoSuchProcess:
        return Session(sid=pid, started_s=0.0)


def last_words(log: Path) -> str:
    """The last line of a log that is not empty, for a one-line message."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LINE_BYTES_MAX))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    return next((line[:300] for line in reversed(lines) if line), "")


def set_aside(log: Path, bytes_max: int) -> None:
    """Keep one older log and begin anew; a running part goes on writing to the emptied file. Raises
    OSError, with the log as it was, where there is no room for the older one."""
    if not log.exists() or log.stat().st_size < bytes_max:
        return
    older = log.with_name(log.name + ".1")
    try:
        older.write_bytes(log.read_bytes())
    except OSError:
        older.unlink(missing_ok=True)
        raise
    os.truncate(log, 0)
