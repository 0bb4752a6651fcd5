"""Checkpoints on real raylets with disks of their own: fetched from a store over loopback, before a
replica loads; nodes that have them are preferred; what fails is said."""

import asyncio
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import uvicorn
from fastapi import FastAPI

from gateway.api.error_handlers import install_error_handlers
from gateway.catalog.weights import routes
from gateway.catalog.weights.cache import WeightCache
from gateway.settings import Settings
from tests.workers.cluster import PATIENCE_S, SECRET, Cluster, Gateway, pool
from tests.workers.nodes.test_machine_nodes import is_warm, node_of, processes
from tests.workers.published import published_model
from tests.workers.weights.checkpoints import checkpoint, manifest
from workers.weights.manifest import MANIFEST

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.timeout(600)]

TYPES = """
[[nodes]]
name = "disk"
market = "on_demand"
cpus = 4
min = 2
max = 2
weights_gb = 0.01
"""
ABSENT = "0" * 64


def files(seed: int) -> dict[str, bytes]:
    return checkpoint(seed, size=6_000_000)


def of_disk(name: str, model: str, **fields: object) -> dict[str, object]:
    return pool(name, model=model, capacity_class="on_demand", **fields)


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    return number


@pytest.fixture(scope="module")
def cluster(port: int) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as name:
        folder = Path(name)
        (folder / "nodes.toml").write_text(TYPES)
        cluster = Cluster(folder)
        cluster.env |= {
            "SLUICE_CONFIG": str(folder / "nodes.toml"),
            "SLUICE_RAY__WEIGHTS_URL": f"http://127.0.0.1:{port}",
        }
        try:
            cluster.start()
            yield cluster
        finally:
            sessions = processes(cluster)
            left = cluster.stop()
        psutil.wait_procs(sessions, timeout=PATIENCE_S)
        assert not left


@pytest.fixture
async def gateway(cluster: Cluster, port: int) -> AsyncIterator[Gateway]:
    """With the real routes of a gateway's store."""
    settings = Settings(data=cluster.folder / "data", worker_secret=SECRET)
    for seed in (1, 2):
        source = cluster.folder / f"source-{seed}"
        source.mkdir(exist_ok=True)
        for name, content in files(seed).items():
            (source / name).write_bytes(content)
        cache = WeightCache(settings.weights, tell=lambda words: None)
        cache.take(source, cache.read(source))
    app = FastAPI()
    install_error_handlers(app, lambda kind: kind, time.time)
    app.include_router(routes.router)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", lifespan="off"))
    async with Gateway(cluster) as gateway:
        outside = SimpleNamespace(clock=time.time)
        app.state.parts = SimpleNamespace(settings=settings, redis=gateway.redis, outside=outside)
        serving = asyncio.create_task(server._serve())
        try:
            yield gateway
        finally:
            server.should_exit = True
            await serving


async def publish(gateway: Gateway, *pools: dict[str, object]) -> None:
    ids = {"one": manifest(files(1)).checksum, "two": manifest(files(2)).checksum}
    ids["absent"] = ABSENT
    models = [
        published_model(name=name, path=f"/elsewhere/{id}", checksum=id) for name, id in ids.items()
    ]
    await gateway.publish_models(models, *pools)


LARGE = of_disk("large", "two", num_cpus=3.0)
OTHER = of_disk("other", "one", num_cpus=1.5)
"""They do not fit on one node."""


async def test_a_replica_fetches_its_checkpoint_to_the_disk_of_its_node(gateway: Gateway) -> None:
    await publish(gateway, LARGE, OTHER)
    for name, seed in (("large", 2), ("other", 1)):
        answer = await gateway.call(name, name)
        made_of = manifest(files(seed))
        assert answer["files"] == {file.name: file.sha256 for file in made_of.files}
        folder = Path(answer["weights"])
        assert folder.name == made_of.checksum
        assert folder.parent.name == node_of(await gateway.until(name, is_warm))
        assert (folder / MANIFEST).exists()


async def test_a_pool_goes_where_its_checkpoint_is(gateway: Gateway) -> None:
    """By itself Ray fills the node of `large` first."""
    there = node_of(await gateway.until("other", is_warm))
    assert there != node_of(await gateway.until("large", is_warm))
    await gateway.until_nodes(lambda nodes: all(n.weights for n in nodes if n.id == there))
    await publish(gateway, LARGE, OTHER, of_disk("small", "one"))
    answer = await gateway.call("small", "small")
    assert node_of(await gateway.until("small", is_warm)) == there
    assert Path(answer["weights"]).parent.name == there


async def test_what_cannot_be_fetched_blocks_its_pool_with_the_reason(gateway: Gateway) -> None:
    await publish(gateway, OTHER, of_disk("nowhere", "absent"))
    calling = asyncio.create_task(gateway.call("nowhere", "r3"))
    blocked = await gateway.until("nowhere", lambda entry: entry.blocked is not None)
    calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling
    await gateway.room.leave("nowhere", "r3")
    assert blocked.blocked is not None
    assert f"answers 404 to {MANIFEST}" in blocked.blocked
    assert (await gateway.call("other", "r4"))["pool"] == "other"
