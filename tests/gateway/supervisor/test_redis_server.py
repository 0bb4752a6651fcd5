"""The managed Redis: where its socket goes, and that it is the server its settings say."""

import asyncio
import os
import stat
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.supervisor import redis_server
from gateway.supervisor.errors import CannotStart
from gateway.supervisor.part import Part
from gateway.supervisor.redis_server import (
    SOCKET_BYTES_MAX,
    redis_binary,
    redis_part,
    socket_path,
)


def test_socket_lies_in_the_data_folder_if_its_path_is_short(tmp_path: Path) -> None:
    assert socket_path(tmp_path) == tmp_path / "redis.sock"


def test_long_data_path_gets_a_short_private_folder_and_always_the_same(tmp_path: Path) -> None:
    data = tmp_path / ("long" * 30)
    path = socket_path(data)
    assert len(str(path).encode()) <= SOCKET_BYTES_MAX
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert socket_path(data) == path
    path.parent.rmdir()


def server(folder: Path, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    binary = folder / "redis-server"
    binary.write_text(f"#!/bin/sh\necho 'Redis server v={version} sha=0 bits=64'\n")
    binary.chmod(0o755)
    return binary


@pytest.mark.parametrize(
    ("version", "is_newer"), [("99.0.1", True), ("2.8.0", False), ("?", False)]
)
def test_newest_server_of_this_machine_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_newer: bool
) -> None:
    binary = server(tmp_path / "bin", version)
    monkeypatch.setenv("PATH", f"{binary.parent}:{os.environ['PATH']}")
    assert (redis_binary() == binary) == is_newer


def test_server_older_than_what_it_would_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would begin with nothing, and say so nowhere."""
    old = server(tmp_path / "bin", "6.2.14")
    monkeypatch.setattr(redis_server, "redis_binary", lambda: old)
    redis_part(tmp_path)
    (tmp_path / "appendonlydir").mkdir()
    with pytest.raises(CannotStart, match="Redis 7 or later"):
        redis_part(tmp_path)


async def test_server_keeps_what_it_was_told_over_a_restart(tmp_path: Path) -> None:
    data = tmp_path / 'with space and "quotes"'
    data.mkdir()
    spec, url = redis_part(data)
    for expected in (None, b"1"):
        part = await Part.start(spec, data / "redis.log", 1 << 20)
        try:
            async with asyncio.timeout(60):
                await part.wait_ready()
            redis = Redis.from_url(url)
            assert await redis.get("kept") == expected
            await redis.set("kept", "1")
            assert await redis.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert await redis.config_get("port") == {"port": "0"}
            await redis.aclose()
        finally:
            await part.stop(10)
