"""A hub name becomes a model: by the real client, against a small hub on loopback."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gateway.catalog.weights.hub_server import COMMIT, Hub, running_hub
from tests.nursery import sluice

ROOT = Path(__file__).parents[4]
NAME = "acme/tale"
pytestmark = pytest.mark.timeout(120)


@dataclass
class Desk:
    """The command line, beside a hub."""

    folder: Path
    hub: Hub

    def apply(self, **model: str) -> subprocess.CompletedProcess[str]:
        lines = [f"{key} = {json.dumps(value)}" for key, value in model.items()]
        file = self.folder / "models.toml"
        file.write_text("\n".join(["[[models]]", 'name = "tale"', *lines]))
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "HF_"))}
        named = {"HF_ENDPOINT": self.hub.url, "HF_HOME": str(self.folder / "hf")}
        data = str(self.folder / "data")
        return sluice("models", "apply", str(file), "--data", data, env=kept | named)

    def model(self) -> dict[str, str] | None:
        with sqlite3.connect(self.folder / "data" / "sluice.db") as database:
            database.row_factory = sqlite3.Row
            row = database.execute("SELECT * FROM model WHERE name = 'tale'").fetchone()
            return None if row is None else dict(row)

    def cached(self) -> list[str]:
        return sorted(f.name for f in (self.folder / "data" / "weights").glob("[!.]*"))

    def downloads(self) -> list[str]:
        return [line for line in self.hub.asked if line.startswith(f"GET /{NAME}/resolve")]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with running_hub(NAME, ROOT / "models" / "sluice-small") as hub:
        yield Desk(tmp_path, hub)


def test_name_is_pinned_to_its_commit_and_downloaded_once(desk: Desk) -> None:
    done = desk.apply(hub=NAME)
    assert done.returncode == 0, done.stderr
    model = desk.model()
    assert model is not None
    assert model["origin"] == f"hub:{NAME}@{COMMIT}"
    assert desk.cached() == [model["checksum"]] == [Path(model["path"]).name]
    before = desk.downloads()
    again = desk.apply(hub=NAME, revision="main")
    assert again.returncode == 0 and "nothing to do" in again.stdout
    assert before and desk.downloads() == before


def test_download_that_breaks_off_leaves_nothing(desk: Desk) -> None:
    desk.hub.breaks = "model.safetensors"
    done = desk.apply(hub=NAME)
    assert done.returncode == 1
    assert "nothing was changed" in done.stderr and NAME in done.stderr.splitlines()[-1]
    assert desk.model() is None
    assert not list((desk.folder / "data" / "weights").glob("*"))
    desk.hub.breaks = None
    assert desk.apply(hub=NAME).returncode == 0


def test_name_that_the_hub_does_not_know_is_refused(desk: Desk) -> None:
    done = desk.apply(hub="acme/none")
    assert done.returncode == 1
    assert "acme/none: RepositoryNotFoundError" in done.stderr
    assert desk.model() is None
