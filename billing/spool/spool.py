"""The gateway's own record of every call it admitted, on its own disk.

A line is handed to the kernel with one write(2) before anything relies on it, so it survives a
killed process. One task fsyncs the lines, at most `fsync_interval_s` apart, so a lost host costs at
most that much. A line that cannot be written is refused with SpoolFull, and stops admission. The
ends of calls are kept in memory meanwhile, and written as soon as there is room.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from billing.spool.segments import (
    SpoolLine,
    SpoolLineKind,
    is_done,
    read_lines,
    segment_path,
    segments,
    unconfirmed_bytes,
)
from billing.types import (
    OpenedCall,
    Payload,
    SettledCall,
    UsageCheckpoint,
    decode_checkpoint,
    decode_opened,
    decode_settled,
    encode,
)

MIB = 1 << 20
LATE_MAX = 10_000
"""Closing lines that wait for room on the disk: as many calls as may be open, and some."""
LATE_RETRY_S = 0.2


class SpoolFull(Exception):
    """The line was not written: the disk or the spool's own bound is full, or the disk failed."""


class SpoolInUse(Exception):
    """Another process writes to this gateway's spool."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"another gateway writes to the spool {folder}: stop it, or give this one a port or a "
            "data folder of its own"
        )


class Spool:
    """Appends for one gateway below `root`, in a segment of its own. `async with` owns the fsync.

    A new call is refused while segments that the ledger has not confirmed reach `bytes_max`, or the
    disk has less than `disk_free_min_bytes` left. Once the disk failed, every new call is refused.
    Lines of calls that are open already are written as long as the disk lasts.
    """

    def __init__(
        self,
        root: Path,
        gateway: str,
        *,
        segment_bytes: int = 16 * MIB,
        bytes_max: int = 4096 * MIB,
        disk_free_min_bytes: int = 64 * MIB,
        fsync_interval_s: float = 0.02,
        write: Callable[[int, bytes], int] = os.write,
    ) -> None:
        self._root = root
        self._gateway = gateway
        self._segment_bytes = segment_bytes
        self._bytes_max = bytes_max
        self._disk_free_min_bytes = disk_free_min_bytes
        self._fsync_interval_s = fsync_interval_s
        self._write = write
        folder = root / gateway
        folder.mkdir(parents=True, exist_ok=True)
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._folder_fd)
            raise SpoolInUse(folder) from error
        present = segments(root, gateway)
        self._seq = present[-1].seq if present else 0
        self._retired: list[int] = []
        self._failure: str | None = None
        self._trouble: str | None = None
        self._late: deque[bytes] = deque()
        self._dirty = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._fd = self._open_next()

    async def __aenter__(self) -> Spool:
        self._measure()
        self._task = asyncio.create_task(self._sync_forever(), name="spool-fsync")
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._closing = True
        self._dirty.set()
        if self._task:
            await self._task
        self.close()

    def opened(self, call: OpenedCall) -> None:
        """Record an admitted call, before it is dispatched."""
        if self._trouble or self._earlier_bytes + self._size >= self._bytes_max:
            self._measure()  # nothing is written while calls are refused, so nobody else looks
        if self._trouble:
            raise SpoolFull(self._trouble)
        if self._late:
            self._write_late()
        self._append(SpoolLineKind.OPENED, call.rid, call)

    def checkpoint(self, rid: str, checkpoint: UsageCheckpoint) -> None:
        self._append(SpoolLineKind.CHECKPOINT, rid, checkpoint)

    def closed(self, call: SettledCall) -> None:
        """Record how a call ended, before its last frame leaves. Where the line does not fit now,
        it is written once there is room, unless this process has died by then."""
        try:
            self._append(SpoolLineKind.CLOSED, call.rid, call)
        except SpoolFull:
            if len(self._late) < LATE_MAX:
                self._late.append(_line(SpoolLineKind.CLOSED, call.rid, call))
                self._dirty.set()
            raise

    def close(self) -> None:
        """Write everything to disk, and release files and lock. Nothing can be written
        afterwards."""
        with suppress(SpoolFull):
            self._write_late()
        self._sync()
        os.close(self._fd)
        os.close(self._folder_fd)

    def _append(self, kind: SpoolLineKind, rid: str, payload: Payload) -> None:
        self._write_line(_line(kind, rid, payload))

    def _write_late(self) -> None:
        """Write the lines that had no room, in the order in which their calls ended. Raises
        SpoolFull where there still is no room."""
        while self._late:
            self._write_line(self._late[0])
            self._late.popleft()

    def _write_line(self, line: bytes) -> None:
        try:
            if self._size + len(line) > self._segment_bytes and self._size:
                self._rotate()
            self._write_all(line)
        except OSError as error:
            raise SpoolFull(str(error)) from error
        self._dirty.set()

    def _write_all(self, line: bytes) -> None:
        size = 0
        try:
            while size < len(line):
                size += self._write(self._fd, line[size:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += size

    def _rotate(self) -> None:
        full = self._fd
        self._fd = self._open_next()
        self._retired.append(full)

    def _open_next(self) -> int:
        path = segment_path(self._root, self._gateway, self._seq + 1)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        self._seq += 1
        self._size = 0
        self._earlier_bytes = unconfirmed_bytes(self._root, self._gateway)
        self._folder_is_new = True
        return fd

    async def _sync_forever(self) -> None:
        while not self._closing:
            await self._dirty.wait()
            self._dirty.clear()
            with suppress(SpoolFull):
                self._write_late()
            try:
                await asyncio.to_thread(self._sync)
            except OSError as error:
                self._failure = self._trouble = f"the spool's disk failed: {error}"
                return
            self._measure()
            await asyncio.sleep(LATE_RETRY_S if self._late else self._fsync_interval_s)
            if self._late:
                self._dirty.set()

    def _sync(self) -> None:
        retired, self._retired = self._retired, []
        folder_is_new, self._folder_is_new = self._folder_is_new, False
        for fd in [*retired, self._fd]:
            os.fdatasync(fd)
        if folder_is_new:
            os.fsync(self._folder_fd)
        for fd in retired:
            os.close(fd)

    def _measure(self) -> None:
        self._trouble = self._failure or self._lack()

    def _lack(self) -> str | None:
        disk = os.fstatvfs(self._folder_fd)
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < self._disk_free_min_bytes:
            return f"the spool's disk has {free_bytes} bytes left"
        if self._earlier_bytes + self._size < self._bytes_max:
            return None
        self._earlier_bytes = unconfirmed_bytes(self._root, self._gateway) - self._size
        if self._earlier_bytes + self._size < self._bytes_max:
            return None
        return f"the spool holds its {self._bytes_max} bytes"


@dataclass(frozen=True, slots=True)
class SpooledCall:
    """The lines of one call in a spool. There is only `closed` if the call was opened in a
    confirmed segment."""

    rid: str
    opened: OpenedCall | None = None
    checkpoint: UsageCheckpoint | None = None
    closed: SettledCall | None = None


def replay(root: Path, gateway: str) -> list[SpooledCall]:
    """Every call in the segments that the ledger has not confirmed, in order of appearance."""
    calls: dict[str, SpooledCall] = {}
    for segment in segments(root, gateway):
        if not is_done(segment):
            for line in read_lines(segment):
                calls[line.r] = _with(calls.get(line.r) or SpooledCall(line.r), line)
    return list(calls.values())


def _line(kind: SpoolLineKind, rid: str, payload: Payload) -> bytes:
    return _ENCODER.encode(SpoolLine(kind, rid, msgspec.Raw(encode(payload)))) + b"\n"


def _with(call: SpooledCall, line: SpoolLine) -> SpooledCall:
    payload = bytes(line.p)
    match line.k:
        case SpoolLineKind.OPENED:
            return replace(call, opened=decode_opened(payload))
        case SpoolLineKind.CHECKPOINT:
            return replace(call, checkpoint=decode_checkpoint(payload))
        case SpoolLineKind.CLOSED:
            return replace(call, closed=decode_settled(payload))


_ENCODER = msgspec.json.Encoder()
