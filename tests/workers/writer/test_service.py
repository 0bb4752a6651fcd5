"""The writer refuses who does not lead, also late, and after its own death."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp.test_utils import TestServer

from tests.workers.writer.fakes import FakeCluster, MemoryStore
from workers.ray.serve_api import RayRefused, RayUnavailable
from workers.writer.__main__ import WriterServer
from workers.writer.client import WriterApi
from workers.writer.service import LeaderRefused, Writer
from workers.writer.stores import LeaderFile
from workers.writer.writes import (
    NOBODY,
    DeleteApp,
    Lead,
    Leader,
    Order,
    SetReplicas,
)

OLD, NEW = Leader(1, "old"), Leader(2, "new")
SECRET = "the-workers-secret"


def count(number: int) -> SetReplicas:
    return SetReplicas("pool-p.01234567", "engine", number)


async def test_a_claim_refuses_all_writes_of_an_earlier_leader() -> None:
    cluster = FakeCluster()
    writer = Writer(MemoryStore(), cluster)
    await writer.do(Order(OLD, count(1)))
    await writer.do(Order(NEW, Lead()))
    with pytest.raises(LeaderRefused) as refused:
        await writer.do(Order(OLD, count(2)))
    assert refused.value.highest == NEW
    assert cluster.writes == [count(1), Lead()]


async def test_of_two_leaders_with_one_epoch_the_first_stays() -> None:
    """There are two where Redis lost its counter."""
    writer = Writer(MemoryStore(), FakeCluster())
    await writer.do(Order(Leader(1, "first"), Lead()))
    with pytest.raises(LeaderRefused):
        await writer.do(Order(Leader(1, "second"), count(1)))
    await writer.do(Order(Leader(1, "first"), count(1)))


async def test_nobody_writes_with_no_epoch() -> None:
    with pytest.raises(LeaderRefused):
        await Writer(MemoryStore(), FakeCluster()).do(Order(NOBODY, count(1)))


async def test_a_later_leader_waits_for_a_write_that_has_begun() -> None:
    """Otherwise the earlier write might come to the cluster after the later one."""
    effects = FakeCluster()
    writer = Writer(MemoryStore(), effects)
    effects.hold()
    old = asyncio.create_task(writer.do(Order(OLD, count(1))))
    await effects.begun.wait()
    new = asyncio.create_task(writer.do(Order(NEW, count(2))))
    await asyncio.sleep(0)
    assert effects.writes == []
    effects.go_on()
    await asyncio.gather(old, new)
    assert effects.writes == [count(1), count(2)]


async def test_the_leader_is_on_disk_before_it_writes(tmp_path: Path) -> None:
    path = tmp_path / "leader.json"

    class Looking(FakeCluster):
        async def apply(self, write: object) -> None:
            assert msgspec.json.decode(path.read_bytes(), type=Leader) == NEW

    await Writer(LeaderFile(path), Looking()).do(Order(NEW, count(1)))


async def test_another_writer_refuses_whom_the_one_before_refused(tmp_path: Path) -> None:
    path = tmp_path / "leader.json"
    await Writer(LeaderFile(path), FakeCluster()).do(Order(NEW, Lead()))
    again = Writer(LeaderFile(path), FakeCluster())
    with pytest.raises(LeaderRefused):
        await again.do(Order(OLD, count(1)))
    await again.do(Order(NEW, count(1)))


async def test_a_writer_with_a_torn_file_refuses_everybody(tmp_path: Path) -> None:
    """It cannot know who led. A person removes the file when no controller runs."""
    path = tmp_path / "leader.json"
    path.write_bytes(b'{"epoch": 7')
    with pytest.raises(RayUnavailable, match="is broken"):
        await Writer(LeaderFile(path), FakeCluster()).do(Order(NEW, Lead()))


@asynccontextmanager
async def over_http(effects: FakeCluster, secret: str = SECRET) -> AsyncIterator[WriterApi]:
    server = TestServer(WriterServer(Writer(MemoryStore(), effects), SECRET).app)
    async with server, aiohttp.ClientSession() as session:
        url = str(server.make_url("/"))
        yield WriterApi(session, url=url, secret=secret, timeout_s=30.0)


async def test_each_outcome_comes_back_over_http() -> None:
    effects = FakeCluster()
    async with over_http(effects) as api:
        await api.do(NEW, count(1))
        with pytest.raises(LeaderRefused) as refused:
            await api.do(OLD, count(2))
        assert refused.value.highest == NEW
        effects.error = RayRefused("no such application")
        with pytest.raises(RayRefused, match="no such application"):
            await api.do(NEW, DeleteApp("x"))
        effects.error = RayUnavailable("Serve restarts")
        with pytest.raises(RayUnavailable, match="Serve restarts"):
            await api.do(NEW, count(3))
    assert effects.writes == [count(1)]


async def test_who_does_not_know_the_secret_writes_nothing() -> None:
    effects = FakeCluster()
    async with over_http(effects, secret="wrong") as api:
        with pytest.raises(RayUnavailable, match="401"):
            await api.do(NEW, count(1))
    assert effects.writes == []
