"""Weights by content: `DATA/weights/<sha256>/` holds one checkpoint, whole or not at all.

The name is the SHA-256 over the sorted names and SHA-256s of the files, which stand in a manifest
beside them. A folder is filled under another name and renamed in one step; a damaged file in one
is replaced in one step too, below replicas that may be reading it. Nothing is linked, so whatever
happens to the source afterwards, what is served stays what was declared.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from gateway.catalog.weights.files import (
    ELSEWHERE,
    UnfitWeights,
    is_weights,
    served_files,
)
from workers.weights.manifest import (
    MANIFEST,
    BadManifest,
    Manifest,
    WeightFile,
    is_id,
    manifest_of,
    written,
)

INCOMING = ".incoming-"
CHUNK_BYTES = 4 << 20
TELL_EVERY_BYTES = 1 << 30
Tell = Callable[[str], None]


class CacheError(Exception):
    """The cache could not take the weights; nothing of them is left behind."""


class WeightCache:
    """The folder `root`; `tell` hears of whatever takes long."""

    def __init__(self, root: Path, tell: Tell) -> None:
        self._root = root
        self._tell = tell

    def folder(self, checksum: str) -> Path:
        return self._root.absolute() / checksum

    def ids(self) -> list[str]:
        """Of all checkpoints whose weights are here."""
        names = [path.name for path in self._root.iterdir()] if self._root.is_dir() else []
        return sorted(name for name in names if is_id(name))

    def manifest(self, checksum: str) -> Manifest | None:
        """None where the folder has none that is its own."""
        manifest = _manifest_in(self.folder(checksum))
        return manifest if manifest and manifest.checksum == checksum else None

    def read(self, source: Path) -> Manifest:
        """Hash what would be served of a folder. Raises UnfitWeights."""
        progress = _Progress(self._tell, f"reading {source}")
        try:
            return Manifest(tuple(_hashed(source, n, progress) for n in served_files(source)))
        except OSError as unreadable:
            raise UnfitWeights(
                f"{unreadable.filename} cannot be read: {unreadable}"
            ) from unreadable

    def take(self, source: Path, manifest: Manifest, *, verify: bool = False) -> bool:
        """Have these files in the cache; whether anything had to be written.

        A cached folder is believed by the sizes of its files, with `verify` by their hashes; what
        is damaged is brought again. Raises CacheError.
        """
        target = self.folder(manifest.checksum)
        with self._locked():
            if not target.exists():
                self._bring_all(source, manifest, target)
                return True
            damaged = self._damaged(target, manifest, verify=verify)
            if not damaged and _manifest_in(target) == manifest:
                return False
            self._tell(f"{target}: repairing {len(damaged)} damaged files")
            with _disk_trouble():
                self._bring(source, damaged, target)
                _write_manifest(target, manifest)
            return True

    def holds(self, checksum: str, *, verify: bool = False) -> bool:
        """Whether these weights are here and undamaged, so that no source is needed."""
        manifest = self.manifest(checksum)
        if manifest is None:
            return False
        return not self._damaged(self.folder(checksum), manifest, verify=verify)

    def elsewhere(self, checksum: str) -> Path:
        return self._root.absolute() / ELSEWHERE / checksum

    def holds_elsewhere(self, checksum: str) -> bool:
        """Whether all files but weights are here."""
        manifest = _manifest_in(self.elsewhere(checksum))
        return manifest is not None and not self._damaged_elsewhere(manifest)

    def take_elsewhere(self, source: Path, manifest: Manifest) -> bool:
        """Have all files but weights of a checkpoint that stays elsewhere; whether anything had to
        be written. Raises CacheError."""
        target = self.elsewhere(manifest.checksum)
        with self._locked(), _disk_trouble():
            damaged = self._damaged_elsewhere(manifest)
            if not damaged and _manifest_in(target) == manifest:
                return False
            target.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._bring(source, damaged, target)
            _write_manifest(target, manifest)
        return True

    def _damaged_elsewhere(self, manifest: Manifest) -> list[WeightFile]:
        folder = self.elsewhere(manifest.checksum)
        small = [file for file in manifest.files if not is_weights(file.name)]
        return [file for file in small if not _has_size(folder / file.name, file)]

    @contextmanager
    def incoming(self) -> Iterator[Path]:
        """An empty folder on the cache's disk, gone at the end of the block."""
        with _disk_trouble():
            self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
            _remove_abandoned(self._root)
            folder = Path(tempfile.mkdtemp(prefix=INCOMING, dir=self._root))
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)  # says that whoever fills it is alive
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(handle)

    def _bring_all(self, source: Path, manifest: Manifest, target: Path) -> None:
        with _disk_trouble(), self.incoming() as folder:
            free = shutil.disk_usage(self._root).free
            if free < manifest.bytes:
                raise CacheError(
                    f"the disk of {self._root} has {free} bytes left, {source} needs"
                    f" {manifest.bytes}"
                )
            self._bring(source, manifest.files, folder)
            _write_manifest(folder, manifest)
            folder.chmod(0o755)
            folder.rename(target)
            _sync_folder(self._root)

    def _bring(self, source: Path, files: Sequence[WeightFile], folder: Path) -> None:
        progress = _Progress(self._tell, f"copying {source}")
        for file in files:
            _copy(source / file.name, folder / file.name, file, progress)
        for below in {(folder / file.name).parent for file in files}:
            _sync_folder(below)

    def _damaged(self, folder: Path, manifest: Manifest, *, verify: bool) -> list[WeightFile]:
        if not verify:
            return [file for file in manifest.files if not _has_size(folder / file.name, file)]
        progress = _Progress(self._tell, f"verifying {folder}")
        return [file for file in manifest.files if not _is_intact(folder, file, progress)]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time."""
        with _disk_trouble():
            self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
            lock = os.open(self._root / ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


class _Progress:
    """Tells every so many bytes, so that small checkpoints stay silent."""

    def __init__(self, tell: Tell, what: str) -> None:
        self._tell = tell
        self._what = what
        self._bytes = 0

    def add(self, count: int) -> None:
        before, self._bytes = self._bytes, self._bytes + count
        if self._bytes // TELL_EVERY_BYTES > before // TELL_EVERY_BYTES:
            self._tell(f"{self._what}: {self._bytes / 1e9:.1f} GB")


def _remove_abandoned(root: Path) -> None:
    """What a killed process left half filled: nobody holds its lock."""
    for folder in root.glob(f"{INCOMING}*"):
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(handle)


def _hashed(folder: Path, name: str, progress: _Progress) -> WeightFile:
    digest, size = hashlib.sha256(), 0
    with _opened(folder / name) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
            progress.add(len(chunk))
    return WeightFile(name, size, digest.hexdigest())


def _opened(path: Path) -> BinaryIO:
    """Never through a link."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")


def _copy(source: Path, target: Path, file: WeightFile, progress: _Progress) -> None:
    """Written beside, hashed again on the way, put in place in one step."""
    target.parent.mkdir(exist_ok=True)
    beside = target.with_name(f".{target.name}.part")
    digest = hashlib.sha256()
    try:
        with _opened(source) as reading, open(beside, "wb") as writing:
            while chunk := reading.read(CHUNK_BYTES):
                digest.update(chunk)
                writing.write(chunk)
                progress.add(len(chunk))
            writing.flush()
            os.fsync(writing.fileno())
        if digest.hexdigest() != file.sha256:
            raise CacheError(f"{source} changed while it was copied")
        beside.chmod(0o444)
        beside.replace(target)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _has_size(path: Path, file: WeightFile) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == file.bytes


def _is_intact(folder: Path, file: WeightFile, progress: _Progress) -> bool:
    try:
        return _hashed(folder, file.name, progress) == file
    except OSError:
        return False


def _write_manifest(folder: Path, manifest: Manifest) -> None:
    beside = folder / f".{MANIFEST}.part"
    with open(beside, "w") as writing:
        writing.write(written(manifest))
        writing.flush()
        os.fsync(writing.fileno())
    beside.replace(folder / MANIFEST)
    _sync_folder(folder)


def _manifest_in(folder: Path) -> Manifest | None:
    """None where there is none that can be believed."""
    try:
        return manifest_of((folder / MANIFEST).read_bytes())
    except (OSError, BadManifest):
        return None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _disk_trouble() -> Iterator[None]:
    """What the disk says, in words: full, read-only, not ours."""
    try:
        yield
    except OSError as trouble:
        full = trouble.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else str(trouble)
        raise CacheError(f"the weights were not kept: {why}") from trouble
