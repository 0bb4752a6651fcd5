"""Laws of a node's store, after any order of uses, cuts, kills, corrupt bytes and evictions."""

import errno
import hashlib
import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.workers.weights.checkpoints import checkpoint, in_store, manifest
from tests.workers.weights.file_server import FileServer, served
from workers.weights.disk import Disk
from workers.weights.download import WeightsError
from workers.weights.manifest import MANIFEST, manifest_of
from workers.weights.sources import GatewayStore
from workers.weights.store import NodeStore, WeightsLease

SIZE = 600
CHECKPOINTS = {seed: checkpoint(seed, SIZE) for seed in range(4)}
IDS = {seed: manifest(files).checksum for seed, files in CHECKPOINTS.items()}
BYTES = manifest(CHECKPOINTS[0]).bytes
FILES = {path: each for files in CHECKPOINTS.values() for path, each in in_store(files).items()}


class Killed(BaseException):
    """Nothing of ours runs after it, but the system closes what was open."""


@dataclass
class FailingDisk(Disk):
    """Fails at its step number `step`: halfway through a write, before or after a rename."""

    step: int
    error: Callable[[], BaseException]
    after: bool
    count: int = 0

    def _fails(self) -> bool:
        self.count += 1
        return self.count - 1 == self.step

    def write(self, file: BinaryIO, chunk: bytes) -> None:
        if self._fails():
            super().write(file, chunk[: len(chunk) // 2])
            file.flush()
            raise self.error()
        super().write(file, chunk)

    def sync(self, file: BinaryIO) -> None:
        if self._fails():
            raise self.error()
        super().sync(file)

    def sync_folder(self, folder: Path) -> None:
        if self._fails():
            raise self.error()

    def rename(self, source: Path, target: Path) -> None:
        fails = self._fails()
        if not fails or self.after:
            super().rename(source, target)
        if fails:
            raise self.error()

    def remove(self, folder: Path) -> None:
        if self._fails():
            raise self.error()
        super().remove(folder)


@dataclass(frozen=True)
class Use:
    seed: int
    is_held: bool
    disk: Callable[[], Disk]
    cuts: tuple[int, ...] = ()
    corrupt: bool = False


@dataclass(frozen=True)
class Release:
    which: int


def full() -> BaseException:
    return OSError(errno.ENOSPC, "No space left on device")


failing = st.builds(
    lambda step, error, after: lambda: FailingDisk(step, error, after),
    st.integers(0, 16),
    st.sampled_from([Killed, full]),
    st.booleans(),
)
uses = st.builds(
    Use,
    seed=st.sampled_from(sorted(CHECKPOINTS)),
    is_held=st.booleans(),
    disk=st.one_of(st.just(Disk), failing),
    cuts=st.lists(st.integers(0, SIZE + 10), max_size=3).map(tuple),
    corrupt=st.sampled_from([False, False, False, True]),
)
steps = st.lists(
    st.one_of(uses, uses, st.builds(Release, st.integers(0, 3))), min_size=6, max_size=14
)


@settings(max_examples=examples(180))
@given(steps=steps, room=st.sampled_from([BYTES, 2 * BYTES, 3 * BYTES, 3 * BYTES + 1]))
def test_whole_is_whole_used_stays_and_the_bound_holds(
    steps: list[Use | Release], room: int
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        served(FileServer({})) as server,
        ExitStack() as stack,
    ):
        root, held = Path(folder), list[tuple[int, WeightsLease]]()
        time = itertools.count(1)
        for step in steps:
            if isinstance(step, Release):
                for _, lease in held[step.which : step.which + 1]:
                    lease.close()
                del held[step.which : step.which + 1]
                continue
            server.files = dict(FILES)
            server.cuts = list(step.cuts)
            id = IDS[step.seed]
            if step.corrupt:
                path = next(p for p in FILES if id in p and p.endswith("safetensors"))
                server.files[path] = bytes(SIZE)
            store = NodeStore(
                *(root,),
                bytes_max=room,
                now_ns=lambda: next(time),
                pause=lambda s: None,
                disk=step.disk(),
            )
            source = GatewayStore(server.url, id, "secret")
            with suppress(WeightsError, Killed):
                lease = store.use(id, source, source)
                stack.callback(lease.close)
                assert intact(lease.folder, CHECKPOINTS[step.seed])
                held.append((step.seed, lease)) if step.is_held else lease.close()
            for whole in store.whole():
                seed = next(seed for seed, id in IDS.items() if id == whole.id)
                assert intact(root / whole.id, CHECKPOINTS[seed])
            for seed, lease in held:
                assert intact(lease.folder, CHECKPOINTS[seed])
            assert size_of(root) <= room


def intact(folder: Path, files: dict[str, bytes]) -> bool:
    named = manifest_of((folder / MANIFEST).read_bytes()).files
    return {file.name for file in named} == set(files) and all(
        hashlib.sha256((folder / file.name).read_bytes()).hexdigest() == file.sha256
        for file in named
    )


def size_of(root: Path) -> int:
    """Bytes of weights, but for those that were on their way out when their remover was killed."""
    files = [path for path in root.rglob("*") if path.is_file() and MANIFEST not in path.name]
    return sum(p.stat().st_size for p in files if ".gone-" not in str(p))
