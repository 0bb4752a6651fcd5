"""The checkpoints of one node: `ROOT/<id>/` holds one of them, whole or not at all.

A checkpoint is filled under another name and renamed in one step. Who uses one holds a lock on it,
which ends with its process. So what is used is never taken away, and what a killed process left is
seen as such. Where there is a bound, the ones that nobody uses go, the longest unused first.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from workers.weights.disk import Disk
from workers.weights.download import NO_ROOM, Downloads, Pause, WeightsError
from workers.weights.manifest import (
    MANIFEST,
    BadManifest,
    Manifest,
    WeightFile,
    is_id,
    manifest_of,
    written,
)
from workers.weights.sources import Source

INCOMING, GONE, LOCKS = ".incoming-", ".gone-", ".locks"
SPARE_BYTES = 64 << 20
"""Left free on a disk."""
NoteTotal = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """One checkpoint of a store. `used_ns`: when it was last taken into use."""

    id: str
    bytes: int
    used_ns: int


class WeightsLease:
    """A checkpoint in use, from `folder`. It ends with `close`, or with the process."""

    def __init__(self, folder: Path, lock: BinaryIO) -> None:
        self.folder = folder
        self._lock = lock

    def close(self) -> None:
        self._lock.close()


class NodeStore:
    """The folder `root`, for any number of processes. `bytes_max`: None is no bound."""

    def __init__(
        self,
        root: Path,
        *,
        bytes_max: int | None,
        now_ns: Callable[[], int],
        pause: Pause,
        disk: Disk | None = None,
    ) -> None:
        self._root = root.absolute()
        self._bytes_max = bytes_max
        self._now_ns = now_ns
        self._pause = pause
        self._disk = disk or Disk()

    def whole(self) -> list[StoredWeights]:
        """What is here whole, the longest unused first."""
        ids = [path.name for path in self._root.iterdir()] if self._root.is_dir() else []
        stored = [
            StoredWeights(id, manifest.bytes, self._used_ns(id))
            for id in ids
            if is_id(id)
            and (manifest := self._manifest(self._root / id, id)) is not None
            and not _missing(self._root / id, manifest)
        ]
        return sorted(stored, key=lambda each: (each.used_ns, each.id))

    def holds(self, id: str) -> bool:
        """Whether a checkpoint is here whole, by the sizes of its files."""
        manifest = self._manifest(self._root / id, id)
        return manifest is not None and not _missing(self._root / id, manifest)

    def use(
        self, id: str, manifest_from: Source, source: Source, note: NoteTotal = lambda *_: None
    ) -> WeightsLease:
        """Take a checkpoint into use; fetch what is missing first. Of several processes that want
        one, one fetches it. `note` hears the bytes that are here, and all. Raises WeightsError."""
        with _disk_trouble():
            (self._root / LOCKS).mkdir(parents=True, exist_ok=True)
            lock = self._locked(f"{id}.use", fcntl.LOCK_SH)
        try:
            with _disk_trouble():
                os.utime(lock.fileno(), ns=(self._now_ns(), self._now_ns()))
                if not self.holds(id):
                    with self._locked(f"{id}.fetch", fcntl.LOCK_EX):
                        self._fetch(id, manifest_from, source, note)
        except BaseException:
            lock.close()
            raise
        return WeightsLease(self._root / id, lock)

    def damaged(self, id: str) -> list[str]:
        """Hash everything again: the files that are not as they should be. They are removed, so
        that the next use fetches them. Raises WeightsError where the checkpoint is not here."""
        folder = self._root / id
        manifest = self._manifest(folder, id)
        if manifest is None:
            raise WeightsError(f"{id} is not here")
        with _disk_trouble(), self._locked(f"{id}.fetch", fcntl.LOCK_EX):
            names = [file.name for file in manifest.files if not _is_intact(folder, file)]
            for name in names:
                (folder / name).unlink(missing_ok=True)
        return names

    def _fetch(self, id: str, manifest_from: Source, source: Source, note: NoteTotal) -> None:
        """Under the lock of its fetches."""
        if self.holds(id):
            return
        folder = self._root / id
        if not folder.is_dir():
            folder = self._root / f"{INCOMING}{id}"
        manifest = self._manifest(folder, id)
        if manifest is None:
            manifest = Downloads(manifest_from, self._disk, self._pause).manifest(id)
        self._reserve(id, folder, manifest)
        progress = _BytesHere(_present(folder, manifest), manifest.bytes, note)
        downloads = Downloads(source, self._disk, self._pause, progress.add)
        for file in _missing(folder, manifest):
            downloads.file(file, folder / file.name)
        for below in {(folder / file.name).parent for file in manifest.files}:
            self._disk.sync_folder(below)
        if folder != self._root / id:
            self._disk.rename(folder, self._root / id)
            self._disk.sync_folder(self._root)

    def _reserve(self, id: str, folder: Path, manifest: Manifest) -> None:
        """Make room for all of it, and write down that it comes: its manifest, in one step."""
        with self._locked("store", fcntl.LOCK_EX):
            self._make_room(id, manifest.bytes, manifest.bytes - _present(folder, manifest))
            folder.mkdir(exist_ok=True)
            if self._manifest(folder, id) is not None:
                return
            beside = folder / f".{MANIFEST}.part"
            with open(beside, "wb") as writing:
                self._disk.write(writing, written(manifest).encode())
                self._disk.sync(writing)
            self._disk.rename(beside, folder / MANIFEST)

    def _make_room(self, id: str, bytes_all: int, bytes_missing: int) -> None:
        """Raises WeightsError where what is in use leaves none."""
        for left in self._root.glob(f"{GONE}*"):
            self._disk.remove(left)
        others = [each for each in self._reserved() if each.id != id]
        total = sum(each.bytes for each in others)
        while not self._has_room(total + bytes_all, bytes_missing):
            if not others:
                raise WeightsError(self._no_room(bytes_all, bytes_missing, total))
            oldest = others.pop(0)
            if self._evict(oldest.id):
                total -= oldest.bytes

    def _has_room(self, bytes_then: int, bytes_missing: int) -> bool:
        if self._bytes_max is not None and bytes_then > self._bytes_max:
            return False
        return bytes_missing + SPARE_BYTES * bool(bytes_missing) <= self._disk.free_bytes(
            self._root
        )

    def _no_room(self, bytes_all: int, bytes_missing: int, used: int) -> str:
        if self._bytes_max is not None and used + bytes_all > self._bytes_max:
            return (
                f"{_gb(bytes_all)} do not fit: weights_gb is {_gb(self._bytes_max)},"
                f" and {_gb(used)} of it are in use"
            )
        free = self._disk.free_bytes(self._root)
        return f"the disk is full: {_gb(bytes_missing)} are missing, and {_gb(free)} are free"

    def _reserved(self) -> list[StoredWeights]:
        """Everything that takes room, also what a killed process left half fetched, the longest
        unused first."""
        found = []
        for path in self._root.iterdir():
            id = path.name.removeprefix(INCOMING)
            if not is_id(id):
                continue
            manifest = self._manifest(path, id)
            amount = 0 if manifest is None else manifest.bytes
            found.append(StoredWeights(id, amount, self._used_ns(id)))
        return sorted(found, key=lambda each: (each.used_ns, each.id))

    def _evict(self, id: str) -> bool:
        """Take a checkpoint away, unless somebody uses or fetches it."""
        try:
            lock = self._locked(f"{id}.use", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with lock:
            for name in (id, f"{INCOMING}{id}"):
                if (self._root / name).is_dir():
                    gone = self._root / f"{GONE}{name}"
                    self._disk.rename(self._root / name, gone)
                    self._disk.remove(gone)
        return True

    def _locked(self, name: str, how: int) -> BinaryIO:
        """A file of locks is never removed: whoever waits for it would hold a lock on nothing."""
        file = open(self._root / LOCKS / name, "ab")  # noqa: SIM115 its owner closes it
        try:
            fcntl.flock(file, how)
        except BaseException:
            file.close()
            raise
        return file

    def _used_ns(self, id: str) -> int:
        try:
            return (self._root / LOCKS / f"{id}.use").stat().st_mtime_ns
        except OSError:
            return 0

    def _manifest(self, folder: Path, id: str) -> Manifest | None:
        try:
            return manifest_of((folder / MANIFEST).read_bytes(), id=id)
        except (OSError, BadManifest):
            return None


class _BytesHere:
    def __init__(self, here: int, total: int, note: NoteTotal) -> None:
        self._here, self._total, self._note = here, total, note
        note(here, total)

    def add(self, count: int) -> None:
        self._here += count
        self._note(self._here, self._total)


def _missing(folder: Path, manifest: Manifest) -> list[WeightFile]:
    return [file for file in manifest.files if _size_of(folder / file.name) != file.bytes]


def _present(folder: Path, manifest: Manifest) -> int:
    """Bytes that need not come any more."""
    whole = {file.name for file in manifest.files} - {f.name for f in _missing(folder, manifest)}
    sizes = [file.bytes for file in manifest.files if file.name in whole]
    parts = [folder / f"{Path(f.name).parent}/.{Path(f.name).name}.part" for f in manifest.files]
    return sum(sizes) + sum(max(0, _size_of(part)) for part in parts)


def _size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return -1


def _is_intact(folder: Path, file: WeightFile) -> bool:
    try:
        with open(folder / file.name, "rb") as reading:
            return hashlib.file_digest(reading, "sha256").hexdigest() == file.sha256
    except OSError:
        return False


@contextmanager
def _disk_trouble() -> Iterator[None]:
    """What the disk says, in one line."""
    try:
        yield
    except OSError as trouble:
        full = trouble.errno in NO_ROOM
        raise WeightsError("the disk is full" if full else str(trouble)) from trouble


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
