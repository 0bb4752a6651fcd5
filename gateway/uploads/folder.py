"""Where files that callers send lie while their call runs, never whole in memory.

A file there has no name, so the system removes it with whoever had it open: at the end of its call,
and with a process that is killed. Where a file system knows no such files they have a name for an
instant; what an instant left is removed at the next start.
"""

import asyncio
import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gateway.errors import ApiError, bad_request, overloaded

WRITTEN_BYTES = 1 << 20
"""So much is gathered before the disk has it."""
READ_BYTES = 256 << 10
FULL_RETRY_S = 1.0


class UploadFolder:
    """Of one gateway, which alone may have `path`. Its files have at most `bytes_max` together."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self.bytes = 0

    def clear(self) -> None:
        """At a start. Raises OSError."""
        shutil.rmtree(self._path, ignore_errors=True)
        self._path.mkdir(parents=True, exist_ok=True)

    def open(self, field: str, bytes_max: int) -> "Upload":
        """An empty file, which is the caller's to close. Raises ApiError 503."""
        try:
            return Upload(self, field, bytes_max, tempfile.TemporaryFile(dir=self._path))
        except OSError as failed:
            raise _full() from failed

    def take(self, count: int) -> None:
        """Raises ApiError 503 where there is no room."""
        if self.bytes + count > self._bytes_max:
            raise _full()
        self.bytes += count

    def give_back(self, count: int) -> None:
        self.bytes -= count


class Upload:
    """One file that was sent as `field`, of at most `bytes_max`. Whatever reads it has a place in
    it of its own, so that attempts may send it at the same time."""

    def __init__(
        self, folder: UploadFolder, field: str, bytes_max: int, file: "io.BufferedRandom"
    ) -> None:
        self.field = field
        self.size = 0
        self._folder = folder
        self._bytes_max = bytes_max
        self._file = file
        self._gathered = bytearray()
        self._digest = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Raises ApiError 400 for a file that is too large, 503 where there is no room."""
        count = len(data)
        if self.size + count > self._bytes_max:
            raise file_too_large(self.field, self._bytes_max)
        self._folder.take(count)
        self.size += count
        self._gathered += data

    async def write(self, *, is_whole: bool) -> None:
        """What was added, if it is enough or all. Raises ApiError 503 for a disk that fails."""
        if len(self._gathered) >= WRITTEN_BYTES or is_whole:
            gathered, self._gathered = self._gathered, bytearray()
            try:
                await asyncio.to_thread(self._write, gathered, is_whole)
            except OSError as failed:
                raise _full() from failed

    def _write(self, data: bytearray, is_whole: bool) -> None:
        self._digest.update(data)
        self._file.write(data)
        if is_whole:
            self._file.flush()

    @property
    def sha256(self) -> str:
        """Of what was written."""
        return self._digest.hexdigest()

    def read(self, start: int, count: int) -> bytes:
        """Raises ValueError once it is closed."""
        return os.pread(self._file.fileno(), count, start)

    def pieces(self) -> Iterator[bytes]:
        for start in range(0, self.size, READ_BYTES):
            yield self.read(start, READ_BYTES)

    def as_file(self) -> io.BufferedReader:
        """For libraries that read a file."""
        return io.BufferedReader(_Reading(self))

    def close(self) -> None:
        """With it the file is gone. Twice is once."""
        if not self._file.closed:
            self._file.close()
            self._folder.give_back(self.size)


class _Reading(io.RawIOBase):
    def __init__(self, upload: Upload) -> None:
        super().__init__()
        self._upload = upload
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Raises ValueError for a place before the beginning."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._upload.size}[whence]
        if base + offset < 0:
            raise ValueError("a place before the beginning of a file")
        self._place = base + offset
        return self._place

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        data = self._upload.read(self._place, len(buffer))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


def file_too_large(field: str, bytes_max: int) -> ApiError:
    message = f"Invalid '{field}': the file is larger than {bytes_max} bytes."
    return bad_request(message, field, "file_too_large")


def _full() -> ApiError:
    return overloaded("There is no room for another upload now.", FULL_RETRY_S)
