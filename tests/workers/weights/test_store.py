"""A node's checkpoints: fetched once, whole or not at all, kept while somebody uses them."""

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.workers.weights.checkpoints import checkpoint, in_store, manifest
from tests.workers.weights.file_server import FileServer, served
from workers.weights.disk import Disk
from workers.weights.download import ATTEMPTS, WeightsError
from workers.weights.manifest import MANIFEST
from workers.weights.sources import GatewayStore
from workers.weights.store import NodeStore, WeightsLease

PATIENCE_S = 60.0
SECRET = "worker-secret"
FILES = checkpoint(1)
ID = manifest(FILES).checksum


class Node:
    """A store whose time is the number of its uses."""

    def __init__(self, root: Path, url: str, *, bytes_max: int | None = None) -> None:
        self.pauses: list[float] = []
        self.heard: list[tuple[int, int]] = []
        self.disk = Disk()
        self.time = 0
        self.url = url
        self.root = root
        self.bytes_max = bytes_max

    @property
    def store(self) -> NodeStore:
        return NodeStore(
            *(self.root,),
            bytes_max=self.bytes_max,
            now_ns=lambda: self.time,
            pause=self.pauses.append,
            disk=self.disk,
        )

    def use(self, id: str = ID) -> WeightsLease:
        self.time += 1
        source = GatewayStore(self.url, id, SECRET)
        return self.store.use(id, source, source, lambda *counts: self.heard.append(counts))


@contextmanager
def gateway(*seeds: int) -> Iterator[FileServer]:
    files = {path: c for seed in seeds for path, c in in_store(checkpoint(seed)).items()}
    with served(FileServer(files)) as server:
        yield server


def id_of(seed: int) -> str:
    return manifest(checkpoint(seed)).checksum


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if path.name != ".locks")


def test_a_checkpoint_is_fetched_once_and_found_whole(tmp_path: Path) -> None:
    with gateway(1) as server:
        node = Node(tmp_path, server.url)
        first = node.use()
        assert {n: (first.folder / n).read_bytes() for n in FILES} == FILES
        asked = len(server.requests)
        assert node.use().folder == first.folder
        assert len(server.requests) == asked == 1 + len(FILES)
    total = manifest(FILES).bytes
    assert node.heard[0] == (0, total)
    assert node.heard[-1] == (total, total)


def test_only_who_has_the_secret_is_answered(tmp_path: Path) -> None:
    with gateway(1) as server:
        server.check = lambda _, headers: 0 if headers["x-sluice-worker-secret"] == SECRET else 401
        Node(tmp_path, server.url).use()


def test_a_download_that_is_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    with gateway(1) as server:
        size = len(FILES["model.safetensors"])
        server.cuts = [10_000, 10_000, 400, 300]
        Node(tmp_path, server.url).use()
    assert server.asked("model.safetensors") == [None, "bytes=400-", "bytes=700-"]
    assert server.sent < manifest(FILES).bytes + size


def test_a_server_without_ranges_is_asked_for_all_of_it_again(tmp_path: Path) -> None:
    with gateway(1) as server:
        server.ranges = False
        server.cuts = [10_000, 10_000, 400]
        lease = Node(tmp_path, server.url).use()
        assert (lease.folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]


def test_what_can_pass_is_tried_again_ever_later(tmp_path: Path) -> None:
    with gateway(1) as server:
        server.statuses = [503, 429, 500]
        node = Node(tmp_path, server.url)
        node.use()
    assert node.pauses == [0.5, 1.0, 2.0]


def test_an_absent_source_is_one_line_and_nothing_stays(tmp_path: Path) -> None:
    with gateway(1) as server:
        url = server.url
    node = Node(tmp_path, url)
    with pytest.raises(WeightsError, match=rf"^the gateway at {url} is away: .*\(5 attempts\)$"):
        node.use()
    assert len(node.pauses) == ATTEMPTS - 1
    assert names(tmp_path) == []


def test_a_store_that_lacks_the_checkpoint_says_so_at_once(tmp_path: Path) -> None:
    with gateway(1) as server:
        node = Node(tmp_path, server.url)
        with pytest.raises(WeightsError, match=f"answers 404 to {MANIFEST}$"):
            node.use(id_of(2))
    assert node.pauses == []


def test_other_bytes_never_become_the_checkpoint(tmp_path: Path) -> None:
    with gateway(1) as server:
        path = next(path for path in server.files if path.endswith("model.safetensors"))
        server.files[path] = bytes(len(server.files[path]))
        node = Node(tmp_path, server.url)
        with pytest.raises(WeightsError, match=r"model\.safetensors has another SHA-256$"):
            node.use()
        assert not node.store.holds(ID)
        assert node.store.whole() == []
        server.files[path] = FILES["model.safetensors"]
        node.use()
        assert node.store.damaged(ID) == []


def test_the_manifest_of_another_checkpoint_is_not_believed(tmp_path: Path) -> None:
    with gateway(1, 2) as server:
        ours, other = (f"/internal/v1/weights/{id_of(n)}/{MANIFEST}" for n in (1, 2))
        server.files[ours] = server.files[other]
        with pytest.raises(WeightsError, match=f"the manifest is that of {id_of(2)}$"):
            Node(tmp_path, server.url).use()


class FullDisk(Disk):
    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, file: BinaryIO, chunk: bytes) -> None:
        self.room -= len(chunk)
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(file, chunk)

    def free_bytes(self, folder: Path) -> int:
        return 1 << 40


def test_a_disk_that_gets_full_is_one_line_and_leaves_no_part(tmp_path: Path) -> None:
    with gateway(1) as server:
        node = Node(tmp_path, server.url)
        node.disk = FullDisk(room=700)
        with pytest.raises(WeightsError, match=r"^model.safetensors: the disk is full$"):
            node.use()
        assert not list(tmp_path.rglob("*.part"))
        node.disk = Disk()
        node.use()


def test_a_disk_without_room_is_refused_before_a_byte_comes(tmp_path: Path) -> None:
    class Small(Disk):
        def free_bytes(self, folder: Path) -> int:
            return 1000

    with gateway(1) as server:
        node = Node(tmp_path, server.url)
        node.disk = Small()
        with pytest.raises(WeightsError, match=r"^the disk is full: .* are missing, and .* free$"):
            node.use()
        assert server.asked("model.safetensors") == []


def test_the_longest_unused_one_goes_and_a_used_one_never(tmp_path: Path) -> None:
    size = manifest(FILES).bytes
    with gateway(1, 2, 3, 4) as server:
        node = Node(tmp_path, server.url, bytes_max=3 * size)
        used = node.use(id_of(1))
        for seed in (2, 3):
            node.use(id_of(seed)).close()
        node.use(id_of(2)).close()
        node.use(id_of(4)).close()
        assert {each.id for each in node.store.whole()} == {id_of(1), id_of(2), id_of(4)}
        assert (used.folder / "model.safetensors").exists()


def test_what_does_not_fit_beside_what_is_used_is_refused_with_the_numbers(tmp_path: Path) -> None:
    size = manifest(FILES).bytes
    with gateway(1, 2) as server:
        node = Node(tmp_path, server.url, bytes_max=2 * size - 1)
        lease = node.use(id_of(1))
        with pytest.raises(WeightsError, match=r"do not fit: weights_gb is .* are in use$"):
            node.use(id_of(2))
        lease.close()
        node.use(id_of(2))
        assert [each.id for each in node.store.whole()] == [id_of(2)]


def test_two_that_want_the_same_fetch_it_once(tmp_path: Path) -> None:
    with gateway(1) as server:
        path = next(path for path in server.files if path.endswith("model.safetensors"))
        server.gates[path] = threading.Event()
        nodes = [Node(tmp_path, server.url) for _ in range(3)]
        threads = [threading.Thread(target=node.use) for node in nodes]
        for thread in threads:
            thread.start()
        assert server.halfway.wait(PATIENCE_S)
        server.gates[path].set()
        for thread in threads:
            thread.join()
        assert len(server.requests) == 1 + len(FILES)
        assert nodes[0].store.holds(ID)


def test_damage_is_found_by_hashing_and_mended_by_the_next_use(tmp_path: Path) -> None:
    with gateway(1) as server:
        node = Node(tmp_path, server.url)
        lease = node.use()
        file = lease.folder / "model.safetensors"
        file.chmod(0o644)
        file.write_bytes(bytes(file.stat().st_size))
        lease.close()
        assert node.store.damaged(ID) == ["model.safetensors"]
        assert not node.store.holds(ID)
        node.use()
        assert node.store.damaged(ID) == []
        assert len(server.asked("config.json")) == 1
