"""Weights by content: whole or not at all, copied once, repaired where they were damaged."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from gateway.catalog.weights import cache as cache_module
from gateway.catalog.weights.cache import CacheError, Manifest, WeightCache
from gateway.catalog.weights.files import UnfitWeights

SOURCE = Path(__file__).parents[4] / "models" / "sluice-small"


class Shelf:
    def __init__(self, folder: Path) -> None:
        self.source = folder / "source"
        shutil.copytree(SOURCE, self.source)
        self.told: list[str] = []
        self.root = folder / "weights"
        self.cache = WeightCache(self.root, self.told.append)

    def read(self) -> Manifest:
        return self.cache.read(self.source)

    def take(self, *, verify: bool = False) -> bool:
        return self.cache.take(self.source, self.read(), verify=verify)

    @property
    def folders(self) -> list[Path]:
        return sorted(p for p in self.root.iterdir() if p.is_dir())


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def damage(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)


def test_same_files_have_the_same_checksum_wherever_they_lie(shelf: Shelf) -> None:
    assert shelf.read() == shelf.cache.read(SOURCE)
    (shelf.source / "config.json").write_text("{}")
    assert shelf.read().checksum != shelf.cache.read(SOURCE).checksum


def test_weights_are_copied_once_and_never_linked(shelf: Shelf) -> None:
    assert shelf.take()
    [kept] = shelf.folders
    inode = (kept / "model.safetensors").stat().st_ino
    assert not shelf.take() and not shelf.take(verify=True)
    assert (kept / "model.safetensors").stat().st_ino == inode
    assert (kept / "model.safetensors").stat().st_nlink == 1
    assert inode != (shelf.source / "model.safetensors").stat().st_ino


def test_code_pickles_and_strangers_are_left_where_they_are(shelf: Shelf) -> None:
    for name in ("pytorch_model.bin", "modeling_evil.py", "README.md", "training_args.bin"):
        (shelf.source / name).write_text("import os")
    (shelf.source / "onnx").mkdir()
    (shelf.source / "onnx" / "model.safetensors").write_text("x")
    shelf.take()
    [kept] = shelf.folders
    names = {str(f.relative_to(kept)) for f in kept.rglob("*") if f.is_file()}
    assert names == {f.name for f in SOURCE.iterdir()} | {"sluice-manifest.json"}


def test_link_is_refused(shelf: Shelf) -> None:
    (shelf.source / "vocab.txt").symlink_to("/etc/hostname")
    with pytest.raises(UnfitWeights, match=r"vocab.txt is a link"):
        shelf.read()


def test_link_to_a_folder_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "config.json").write_text("{}")
    (shelf.source / "1_Pooling").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnfitWeights, match="link"):
        shelf.read()


def test_file_that_was_cut_is_noticed_and_repaired(shelf: Shelf) -> None:
    shelf.take()
    [kept] = shelf.folders
    whole = (kept / "model.safetensors").read_bytes()
    damage(kept / "model.safetensors", whole[:100])
    assert not shelf.cache.holds(kept.name)
    assert shelf.take()
    assert (kept / "model.safetensors").read_bytes() == whole
    assert shelf.cache.holds(kept.name, verify=True)


def test_file_of_the_same_size_is_noticed_by_its_hash(shelf: Shelf) -> None:
    shelf.take()
    [kept] = shelf.folders
    whole = (kept / "tokenizer.json").read_bytes()
    damage(kept / "tokenizer.json", b" " * len(whole))
    assert not shelf.take(), "sizes alone say nothing"
    assert shelf.take(verify=True)
    assert (kept / "tokenizer.json").read_bytes() == whole


def test_lost_manifest_is_written_again(shelf: Shelf) -> None:
    shelf.take()
    [kept] = shelf.folders
    (kept / "sluice-manifest.json").unlink()
    assert not shelf.cache.holds(kept.name)
    assert shelf.take()
    assert shelf.cache.holds(kept.name)


def test_full_disk_leaves_nothing_half_there(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cache_module.os, "fsync", full)
    with pytest.raises(CacheError, match="the disk is full"):
        shelf.take()
    assert shelf.folders == []


def test_disk_without_room_is_noticed_before_anything_is_written(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cache_module.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 1)
    )  # type: ignore[attr-defined]
    with pytest.raises(CacheError, match="has 1 bytes left"):
        shelf.take()
    assert shelf.folders == []


def test_source_that_changes_meanwhile_is_not_kept(shelf: Shelf) -> None:
    manifest = shelf.read()
    (shelf.source / "config.json").write_text("{}")
    with pytest.raises(CacheError, match="changed while it was copied"):
        shelf.cache.take(shelf.source, manifest)
    assert shelf.folders == []


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_fills_is_not(
    shelf: Shelf,
) -> None:
    shelf.root.mkdir()
    (shelf.root / ".incoming-dead").mkdir()
    with shelf.cache.incoming() as alive:
        shelf.take()
        assert alive.is_dir()
    assert len(shelf.folders) == 1
