"""The pipelined connection, with a real Redis that answers, hangs, dies and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hiredis
import pytest
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from billing.limits.link import Link
from tests.redis_server import RedisServer


def packed(*words: str | bytes | int) -> bytes:
    command: bytes = hiredis.pack_command(words)  # type: ignore[arg-type]
    return command


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
    ):
        yield server


async def test_everybody_gets_the_reply_to_their_own_question(redis: Redis) -> None:
    link = Link(redis, timeout_s=5)
    asked = [link.ask(packed("ECHO", f"{number} " + "x" * number * 10)) for number in range(300)]
    replies = await asyncio.gather(*asked)
    assert [int(reply.split()[0]) for reply in replies] == list(range(300))


async def test_questions_of_one_turn_share_one_connection(redis: Redis) -> None:
    link = Link(redis, timeout_s=5)
    ids = await asyncio.gather(*(link.ask(packed("CLIENT", "ID")) for _ in range(50)))
    assert len(set(ids)) == 1


async def test_error_of_one_question_is_nobody_elses(redis: Redis) -> None:
    link = Link(redis, timeout_s=5)
    commands = [packed("PING"), packed("NONSENSE"), packed("EVALSHA", "0" * 40, 0), packed("PING")]
    replies = await asyncio.gather(*map(link.ask, commands), return_exceptions=True)
    assert [type(reply) for reply in replies] == [bytes, ResponseError, NoScriptError, bytes]


async def test_caller_who_leaves_takes_no_reply_from_others(redis: Redis) -> None:
    link = Link(redis, timeout_s=5)
    await link.ask(packed("PING"))
    asked = [asyncio.create_task(link.ask(packed("ECHO", number))) for number in range(9)]
    await asyncio.sleep(0)
    for task in asked[::2]:
        task.cancel()
    replies = await asyncio.gather(*asked, return_exceptions=True)
    assert replies[1::2] == [b"1", b"3", b"5", b"7"]
    assert await link.ask(packed("ECHO", "after")) == b"after"


async def test_redis_that_hangs_fails_everybody_in_time(own_server: RedisServer) -> None:
    async with own_server.client() as redis:
        link = Link(redis, timeout_s=0.3)
        await link.ask(packed("PING"))
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(5):
                asked = [link.ask(packed("PING")) for _ in range(20)]
                replies = await asyncio.gather(*asked, return_exceptions=True)
                late = await asyncio.gather(link.ask(packed("PING")), return_exceptions=True)
        finally:
            os.kill(own_server.pid, signal.SIGCONT)
        assert all(isinstance(reply, RedisError | OSError) for reply in [*replies, *late])
        assert await link.ask(packed("PING")) == b"PONG"


async def test_connection_that_was_killed_is_replaced_unnoticed(redis: Redis) -> None:
    link = Link(redis, timeout_s=5)
    for _ in range(3):
        own = await link.ask(packed("CLIENT", "ID"))
        assert await redis.client_kill_filter(_id=str(own))
        assert await link.ask(packed("PING")) == b"PONG"


async def test_restarted_redis_is_connected_to_again(own_server: RedisServer) -> None:
    async with own_server.client() as redis:
        link = Link(redis, timeout_s=2)
        await link.ask(packed("SET", "a", 1))
        own_server.kill9()
        with pytest.raises((RedisError, OSError)):
            await link.ask(packed("GET", "a"))
        own_server.start()
        assert await link.ask(packed("GET", "a")) == b"1"


async def test_connections_do_not_pile_up(redis: Redis) -> None:
    link = Link(redis, timeout_s=5)
    for _ in range(20):
        own = await link.ask(packed("CLIENT", "ID"))
        await redis.client_kill_filter(_id=str(own))
    await link.ask(packed("PING"))
    assert len(await redis.client_list()) < 10


async def test_password_and_database_of_the_url_are_used(own_server: RedisServer) -> None:
    async with own_server.client() as admin:
        await admin.config_set("requirepass", "secret")
        async with Redis.from_url(f"{own_server.url}?password=secret&db=3") as redis:
            link = Link(redis, timeout_s=5)
            await link.ask(packed("SET", "a", 1))
            assert await redis.get("a") == b"1"
        async with Redis.from_url(f"{own_server.url}?db=3") as stranger:
            with pytest.raises(RedisError):
                await Link(stranger, timeout_s=5).ask(packed("GET", "a"))


async def test_closing_the_client_closes_the_connection(own_server: RedisServer) -> None:
    async with asyncio.timeout(10), own_server.client() as watching:
        redis = own_server.client()
        own = await Link(redis, timeout_s=5).ask(packed("CLIENT", "ID"))
        await redis.aclose()
        while str(own) in {client["id"] for client in await watching.client_list()}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
