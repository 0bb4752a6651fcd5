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
from tests.workers.weights.file_server import FileServer, served
from workers.weights.sources import GatewayStore, HubName
from workers.weights.sources import Hub as WeightsHub
from workers.weights.store import NodeStore

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


def test_weights_stay_on_the_hub_until_a_node_fetches_them(desk: Desk) -> None:
    desk.hub.large = ("model.safetensors", "tokenizer.json")
    done = desk.apply(weights=f"hf://{NAME}")
    assert done.returncode == 0, done.stderr
    model = desk.model()
    assert model is not None
    assert model["origin"] == f"hf://{NAME}@{COMMIT}"
    kept = Path(model["path"])
    assert kept.parent.name == "elsewhere" and (kept / "tokenizer.json").exists()
    assert not [line for line in desk.downloads() if line.endswith("model.safetensors")]
    before = desk.downloads()
    again = desk.apply(weights=model["origin"])
    assert again.returncode == 0 and "nothing to do" in again.stdout
    assert desk.downloads() == before
    files = {path.name: path.read_bytes() for path in kept.iterdir()}
    at = f"/internal/v1/weights/{model['checksum']}"
    with served(FileServer({f"{at}/{name}": content for name, content in files.items()})) as of:
        store = NodeStore(
            desk.folder / "node", bytes_max=None, now_ns=lambda: 1, pause=lambda s: None
        )
        store.use(
            model["checksum"],
            GatewayStore(of.url, model["checksum"], "secret"),
            WeightsHub(HubName(NAME, COMMIT), desk.hub.url),
        )
    assert store.damaged(model["checksum"]) == []


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
