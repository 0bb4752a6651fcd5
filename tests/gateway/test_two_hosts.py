"""Two hosts with a gateway of the same port each: one Redis, one database, a data folder of its own
for each of them. To Redis they are two gateways."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from billing.credits.lines import REVISION_KEY
from billing.limits.holds import Holds
from gateway.call.recovery import GATEWAYS_KEY, RECOVERED_KEY, RECOVERING_KEY
from gateway.upstream import fake
from tests.billing.limits.harness import open_shard
from tests.empty_database import put_empty_database
from tests.gateway import edge
from tests.gateway.edge import API_KEY, CHAT, SHARD, body, story
from tests.gateway.one_process import NotStarted, ended, publish_fleet, started, takes_calls
from tests.plain_http import NOBODY
from tests.redis_server import RedisServer

HOSTS = ("127.0.0.1", "127.0.0.2")
BURST = 10
LOCAL = f"""
[bootstrap]
requests_per_minute = 1
request_burst = {BURST}
"""


def free_port() -> int:
    """Free on both hosts."""
    with socket.socket() as one, socket.socket() as other:
        one.bind((HOSTS[0], 0))
        port = int(one.getsockname()[1])
        other.bind((HOSTS[1], port))
        return port


@asynccontextmanager
async def two_hosts(server: RedisServer, redis: Redis, root: Path) -> AsyncIterator[list[str]]:
    """Their URLs; both take calls."""
    put_empty_database(root / "sluice.db")
    async with fake.FakeUpstream(lambda _: story()) as upstream:
        await redis.set("sluice:prices", edge._prices(round(edge.time() * 1e6)))
        await redis.set(REVISION_KEY, 1)
        await open_shard(Holds(redis), shard=SHARD)
        await publish_fleet(redis, upstream.address)
        port = free_port()
        running = []
        try:
            for number, host in enumerate(HOSTS):
                data = root / f"host{number}"
                data.mkdir()
                running.append(
                    await started(data, server, port, host=host, sql=root / "sluice.db", more=LOCAL)
                )
            urls = [f"http://{host}:{port}" for host in HOSTS]
            await takes_calls(urls)
            yield urls
        finally:
            await ended(running)


def spools(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob("host*/spool/*"))


async def names(redis: Redis) -> list[str]:
    return sorted(name.decode() for name in await redis.zrange(GATEWAYS_KEY, 0, -1))


async def test_each_has_a_heartbeat_and_a_mark_of_recovery_of_its_own(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with two_hosts(redis_server, redis, tmp_path):
        both = await names(redis)
        assert len(both) == 2
        marks = sorted(name.decode() for name in await redis.hkeys(RECOVERED_KEY))
        assert marks == both
        rounds = await redis.keys(f"{RECOVERING_KEY}:*")
        assert len(rounds) == 2, "neither waits for a round of the other"
        assert spools(tmp_path) == both, "an id is the name of the spool that makes it"


async def test_both_together_admit_one_share_while_redis_is_away(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    named = {"authorization": f"Bearer {API_KEY}"}
    wanted = body(stream=False, stream_options=None)
    async with (
        two_hosts(redis_server, redis, tmp_path) as urls,
        httpx.AsyncClient(verify=NOBODY, timeout=60) as client,
    ):
        for url in urls:  # keys and tokenizers are known from here on
            assert (await client.post(url + CHAT, headers=named, json=wanted)).status_code == 200
        await know_of_each_other(redis)
        redis_server.kill9()
        try:
            began_s = time.monotonic()
            calls = [
                client.post(url + CHAT, headers=named, json=wanted)
                for url in urls
                for _ in range(2 * BURST)
            ]
            answers = await asyncio.gather(*calls)
            lasted_s = time.monotonic() - began_s
        finally:
            redis_server.start()
    taken = sum(answer.status_code == 200 for answer in answers)
    assert 0 < taken <= 0.8 * (BURST + lasted_s / 60)


async def know_of_each_other(redis: Redis) -> None:
    """Until each has had a heartbeat since both had one: with it they are told how many live."""
    async with asyncio.timeout(60):
        first: dict[bytes, float] = {}
        while len(first) < len(HOSTS):
            first = dict(await redis.zrange(GATEWAYS_KEY, 0, -1, withscores=True))
            await asyncio.sleep(0.1)
        later = first
        while any(later[name] == beat for name, beat in first.items()):
            later = dict(await redis.zrange(GATEWAYS_KEY, 0, -1, withscores=True))
            await asyncio.sleep(0.1)


async def test_second_gateway_on_a_spool_does_not_start_and_says_why(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    """Another address makes the same port free; the spool is still another gateway's."""
    put_empty_database(tmp_path / "sluice.db")
    port = free_port()
    running = [await started(tmp_path, redis_server, port, host=HOSTS[0])]
    try:
        with pytest.raises(NotStarted, match="another gateway writes to the spool") as refused:
            running.append(await started(tmp_path, redis_server, port, host=HOSTS[1]))
        assert "data folder" in str(refused.value)
    finally:
        await ended(running)
