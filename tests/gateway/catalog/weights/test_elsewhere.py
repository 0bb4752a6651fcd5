"""Models whose weights stay in an S3-compatible store: a gateway takes all but weights, and a node
fetches all of it by the id. Those on a hub are in test_hub.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.declaration import read_document
from gateway.catalog.weights.files import ELSEWHERE
from gateway.catalog.weights.hub import HubError
from tests.gateway.catalog.test_apply import PRICE, SMALL, Desk, desk
from tests.workers.weights.checkpoints import in_store
from tests.workers.weights.file_server import FileServer, served
from workers.weights.manifest import MANIFEST, is_served, manifest_of
from workers.weights.sources import GatewayStore, open_source
from workers.weights.store import NodeStore

FILES = {p.name: p.read_bytes() for p in SMALL.iterdir() if is_served(p.name)}
WEIGHTS = "model.safetensors"
__all__ = ["desk"]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    [manifest] = [c for path, c in in_store(FILES).items() if path.endswith(MANIFEST)]
    files = {f"/models/tale/v1/{name}": content for name, content in FILES.items()}
    with served(FileServer({**files, f"/models/tale/v1/{MANIFEST}": manifest})) as server:
        server.check = lambda _, headers: 0 if "AWS4" in headers.get("authorization", "") else 403
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
        yield server


def model(weights: str, **more: str) -> dict[str, Any]:
    pool = {"name": "tale-rented", "model": "tale"}
    return {
        "models": [{"name": "tale", "weights": weights} | more],
        "pools": [pool],
        "prices": [PRICE],
    }


def fetched(desk: Desk, source: str, environment: dict[str, str]) -> dict[str, bytes]:
    """What a node has after it, whose gateway has no more than it took."""
    row = desk.model()
    assert row.path is not None and row.checksum is not None and row.origin == source
    kept = Path(row.path)
    assert kept == desk.cache.elsewhere(row.checksum)
    assert not (kept / WEIGHTS).exists()
    paths = {
        f"/internal/v1/weights/{row.checksum}/{p.name}": p.read_bytes() for p in kept.iterdir()
    }
    with served(FileServer(paths)) as gateway:
        store = NodeStore(
            desk.folder / "node", bytes_max=None, now_ns=lambda: 1, pause=lambda s: None
        )
        manifest = GatewayStore(gateway.url, row.checksum, "secret")
        from_there = open_source(row.origin, environment, lambda: pytest.fail("no keys"))
        lease = store.use(row.checksum, manifest, from_there)
        return {n: (lease.folder / n).read_bytes() for n in FILES}


def test_a_prefix_of_a_bucket_says_by_its_manifest_what_it_has(
    desk: Desk, bucket: FileServer
) -> None:
    [text] = [content for path, content in bucket.files.items() if path.endswith(MANIFEST)]
    id = manifest_of(text).checksum
    desk.apply(model("s3://models/tale/v1", sha256=id))
    assert not bucket.asked(WEIGHTS)
    bucket.check = lambda target, headers: 0
    environment = {"AWS_ENDPOINT_URL": bucket.url}
    assert fetched(desk, "s3://models/tale/v1", environment) == FILES
    assert desk.apply(model("s3://models/tale/v1", sha256=id)).plan.is_empty


def test_another_checkpoint_than_the_one_declared_is_refused(
    desk: Desk, bucket: FileServer
) -> None:
    document = model("s3://models/tale/v1")
    for fields in ({}, {"path": "source", "weights": None}):
        document["models"][0] |= {"sha256": "0" * 64} | fields
        [mistake] = desk.refused(document)
        assert re.fullmatch(r"models\.0\.sha256: the checkpoint is [0-9a-f]{64}", mistake)
    assert not (desk.folder / "weights" / ELSEWHERE).exists()


def test_a_bucket_without_a_manifest_is_the_sources_fault(desk: Desk, bucket: FileServer) -> None:
    bucket.files = {path: c for path, c in bucket.files.items() if MANIFEST not in path}
    with pytest.raises(HubError, match=rf"^s3://models/tale/v1 answers 404 to {MANIFEST}$"):
        desk.apply(model("s3://models/tale/v1"))


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"weights": "hf://tale"}, "models.0.weights"),
        ({"weights": "gs://bucket/tale"}, "models.0.weights"),
        ({"weights": "checkpoints/tale"}, "models.0.weights"),
        ({"weights": "s3://bucket/tale", "path": "source"}, "models.0.weights"),
        ({"weights": "s3://bucket/tale", "hub": "acme/tale"}, "models.0.weights"),
        ({"weights": "s3://bucket/tale", "sha256": "ABC"}, "models.0.sha256"),
        ({"sha256": "0" * 64, "context_tokens": 8, "max_output_tokens": 8}, "models.0.sha256"),
    ],
)
def test_a_malformed_place_is_refused_by_field(fields: dict[str, Any], place: str) -> None:
    [mistake] = read_document({"models": [{"name": "tale"} | fields]}).mistakes
    assert mistake.place == place
