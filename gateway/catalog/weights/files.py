"""Which files of a checkpoint folder serving needs: an allow-list, so that nothing else is kept.

Weights come as safetensors only. Pickled weights and code are never taken, wherever they lie.
"""

import json
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from workers.weights.manifest import is_served

WEIGHTS = "*.safetensors"
ELSEWHERE = "elsewhere"
"""The folder beside whole checkpoints of those whose weights are not here, by their ids."""
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle", "*.h5", "*.msgpack")
_HEADER_MAX = 100 << 20


class UnfitWeights(ValueError):
    """A folder that cannot be served, and why."""


def served_files(folder: Path) -> tuple[str, ...]:
    """The files to keep, sorted. Raises UnfitWeights for a link among them."""
    names = []
    for name in _names(folder):
        if not is_served(name):
            continue
        mode = (folder / name).lstat().st_mode
        if stat.S_ISLNK(mode) or (folder / name).parent.is_symlink():
            raise UnfitWeights(f"{name} is a link; only plain files are taken")
        if not stat.S_ISREG(mode):
            raise UnfitWeights(f"{name} is not a plain file")
        names.append(name)
    return tuple(sorted(names))


def is_weights(name: str) -> bool:
    return fnmatchcase(name, WEIGHTS)


def check_weights(folder: Path) -> None:
    """Whether the weights are there, whole, and safe to load. Raises UnfitWeights."""
    names = [name for name in served_files(folder) if fnmatchcase(name, WEIGHTS)]
    indexed = _indexed(folder)
    if missing := sorted(indexed - set(names)):
        raise UnfitWeights(f"the index names {', '.join(missing)}, which is not there")
    if not names:
        pickled = [n for n in _names(folder) if any(fnmatchcase(n, p) for p in PICKLED)]
        if pickled:
            raise UnfitWeights(
                f"has pickled weights only ({pickled[0]}), which are never loaded:"
                " convert them to safetensors"
            )
        raise UnfitWeights("has no *.safetensors")
    for name in names:
        _check_safetensors(folder / name)


def _names(folder: Path) -> Iterator[str]:
    """Everything in the folder and in the folders right below it."""
    for entry in _entries(folder):
        if entry.is_dir():
            yield from (f"{entry.name}/{below.name}" for below in _entries(Path(entry.path)))
        else:
            yield entry.name


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as unreadable:
        raise UnfitWeights(f"{folder} cannot be read: {unreadable.strerror}") from unreadable


def _indexed(folder: Path) -> set[str]:
    """The shards that an index names."""
    shards: set[str] = set()
    for index in folder.glob("*.safetensors.index.json"):
        try:
            shards |= set(json.loads(index.read_text())["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as odd:
            raise UnfitWeights(f"{index.name} cannot be read: {odd!r}") from odd
    if odd_names := [name for name in shards if Path(str(name)).name != name]:
        raise UnfitWeights(f"the index names {odd_names[0]!r}, which is no file of this folder")
    return shards


def _check_safetensors(file: Path) -> None:
    """The header says how long the file must be, so one that was cut short is noticed."""
    size = file.stat().st_size
    try:
        with file.open("rb") as stream:
            header_bytes = int.from_bytes(stream.read(8), "little")
            if not 0 < header_bytes <= min(size, _HEADER_MAX):
                raise ValueError("it has no header")
            header = json.loads(stream.read(header_bytes))
        ends = [int(t["data_offsets"][1]) for name, t in header.items() if name != "__metadata__"]
        whole = 8 + header_bytes + max(ends)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError) as odd:
        raise UnfitWeights(f"{file.name} is not safetensors: {odd}") from odd
    if size != whole:
        raise UnfitWeights(f"{file.name} is not whole: {size} bytes of {whole}")
