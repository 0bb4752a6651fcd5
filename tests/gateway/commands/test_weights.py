"""`sluice weights`: what is in the store, put there and hashed again."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.nursery import sluice

SMALL = Path(__file__).parents[3] / "models" / "sluice-small"


def weights(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLUICE_")}
    return sluice("weights", *arguments, "--data", str(folder / "data"), env=environment)


def test_a_checkpoint_is_put_there_listed_and_verified(tmp_path: Path) -> None:
    added = weights(tmp_path, "add", str(SMALL))
    assert added.returncode == 0, added.stderr
    id = added.stdout.strip()
    assert weights(tmp_path, "add", str(SMALL)).stdout.strip() == id
    folder = tmp_path / "data" / "weights" / id
    [line] = weights(tmp_path, "list").stdout.splitlines()
    assert line.split() == [id, *line.split()[1:3], str(folder)]
    assert weights(tmp_path, "verify").stdout == f"{id}  whole\n"
    file = folder / "model.safetensors"
    file.chmod(0o644)
    with file.open("r+b") as damaged:
        damaged.seek(-1, os.SEEK_END)
        damaged.write(b"\x7f")
    found = weights(tmp_path, "verify", id)
    assert (found.returncode, found.stdout) == (1, f"{id}  damaged\n")


def test_what_is_no_checkpoint_is_one_line(tmp_path: Path) -> None:
    refused = weights(tmp_path, "add", str(tmp_path))
    assert refused.returncode == 1
    assert refused.stderr == f"{tmp_path}: has no *.safetensors\n"
    unknown = weights(tmp_path, "verify", "0" * 64)
    assert (unknown.returncode, unknown.stderr) == (1, f"{'0' * 64} is not in the store\n")
