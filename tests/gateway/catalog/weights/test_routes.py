"""The store of a gateway over HTTP: for workers, by ranges, and nothing but checkpoints."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.catalog.weights.cache import WeightCache
from gateway.catalog.weights.routes import CHUNK_BYTES, WeightsResponse
from tests.gateway.api.asgi import Answer, answer
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer
from tests.workers.weights.checkpoints import checkpoint, manifest
from workers.weights.manifest import MANIFEST, manifest_of
from workers.weights.reports import read_fetches, read_held

FILES = checkpoint(1, size=3000)
ID = manifest(FILES).checksum
STORE = f"/internal/v1/weights/{ID}"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        source = tmp_path / "source"
        source.mkdir()
        for name, content in FILES.items():
            (source / name).write_bytes(content)
        settings = running.app.state.parts.settings
        cache = WeightCache(settings.weights, tell=lambda words: None)
        cache.take(source, cache.read(source))
        (settings.weights / ID / "notes.txt").write_text("of nobody's concern")
        yield running


async def get(one: Edge, path: str, **headers: str) -> Answer:
    secret = {"x-sluice-worker-secret": "worker-secret"}
    return await answer(one.app, "GET", path, b"", headers=secret | headers)


async def test_a_worker_reads_the_manifest_and_every_file(one: Edge) -> None:
    of_store = await get(one, f"{STORE}/{MANIFEST}")
    assert manifest_of(of_store.body, id=ID) == manifest(FILES)
    for name, content in FILES.items():
        given = await get(one, f"{STORE}/{name}")
        assert (given.status, given.body) == (200, content)


async def test_a_range_is_answered_from_where_it_begins(one: Edge) -> None:
    given = await get(one, f"{STORE}/model.safetensors", range="bytes=1000-")
    assert given.status == 206
    assert given.headers["content-range"] == "bytes 1000-2999/3000"
    assert given.body == FILES["model.safetensors"][1000:]


def test_a_file_is_read_by_the_piece() -> None:
    assert WeightsResponse.chunk_size == CHUNK_BYTES == 1 << 20


@pytest.mark.parametrize(
    "path",
    [
        f"{STORE}/notes.txt",
        f"{STORE}/../../sluice.db",
        f"{STORE}/..%2F..%2Fsluice.db",
        "/internal/v1/weights/nothing/config.json",
        f"/internal/v1/weights/{'0' * 64}/config.json",
        f"{STORE}/",
    ],
)
async def test_nothing_but_files_of_checkpoints_is_there(one: Edge, path: str) -> None:
    assert (await get(one, path)).status == 404


@pytest.mark.parametrize("secret", ["", "worker-secre", "worker-secret2", "admin"])
async def test_only_workers_are_answered(one: Edge, secret: str) -> None:
    given = await answer(
        *(one.app, "GET", f"{STORE}/config.json", b""), headers={"x-sluice-worker-secret": secret}
    )
    assert (given.status, given.json["error"]["code"]) == (401, "invalid_worker_secret")


async def report(one: Edge, **fields: object) -> int:
    headers = {"x-sluice-worker-secret": "worker-secret", "content-type": "application/json"}
    body = json.dumps({"node": "n1", "replica": "r1"} | fields).encode()
    path = "/internal/v1/weights/report"
    return (await answer(one.app, "PUT", path, body, headers=headers)).status


async def test_what_a_replica_says_reaches_the_controller(one: Edge, redis: Redis) -> None:
    fetch = {"id": ID, "bytes_here": 10, "bytes_total": 40, "bytes_per_s": 5}
    assert await report(one, fetch=fetch) == 204
    now_ms = round(one.app.state.parts.outside.clock() * 1000)
    [(replica, seen)] = (await read_fetches(redis, now_ms)).items()
    assert (replica, seen.id, seen.left_s) == ("r1", ID, 6.0)
    assert not await read_fetches(redis, now_ms + 10_001)
    assert await report(one, held={"ids": [ID]}) == 204
    assert not await read_fetches(redis, now_ms)
    assert [held.ids for held in (await read_held(redis, now_ms)).values()] == [(ID,)]


@pytest.mark.parametrize("fields", [{"held": {"ids": ["x"]}}, {"more": 1}, {"replica": ""}])
async def test_a_report_of_another_shape_is_refused(one: Edge, fields: dict[str, object]) -> None:
    assert await report(one, **fields) == 400
