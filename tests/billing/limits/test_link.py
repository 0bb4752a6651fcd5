"""The pipelined connection, with a real Redis that answers, hangs, dies and comes back."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from billing.limits.link import IN_FLIGHT_MAX, Link, NotSent
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
        link = Link(redis, timeout_s=1.0)
        await link.ask(packed("PING"))
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(30):
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
    async with asyncio.timeout(30), own_server.client() as watching:
        redis = own_server.client()
        own = await Link(redis, timeout_s=5).ask(packed("CLIENT", "ID"))
        await redis.aclose()
        while str(own) in {client["id"] for client in await watching.client_list()}:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


# --- many at once --------------------------------------------------------------------------------


class Peer:
    """A server that answers `+PONG` to every command, `each_s` after the one before it."""

    def __init__(self, each_s: float = 0.0) -> None:
        self.each_s = each_s
        self.heard: list[bytes] = []
        self.unanswered_most = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser, waiting = hiredis.Reader(), 0
        while data := await reader.read(65536):
            parser.feed(data)
            while (command := parser.gets()) is not False:
                self.heard.append(command[-1])
                waiting += 1
                self.unanswered_most = max(self.unanswered_most, waiting)
            await self.may_answer.wait()
            for _ in range(waiting):
                await asyncio.sleep(self.each_s)
                waiting -= 1
                writer.write(b"+PONG\r\n")
        writer.close()


@asynccontextmanager
async def linked(peer: Peer, *, timeout_s: float) -> AsyncIterator[Link]:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        where = f"{folder}/peer.sock"
        async with await asyncio.start_unix_server(peer.serve, where):
            options = {"protocol": 2, "driver_info": None}
            async with Redis.from_url(f"unix://{where}", **options) as redis:
                yield Link(redis, timeout_s=timeout_s)


async def test_time_that_this_process_was_busy_is_not_redis_time() -> None:
    """A question leaves at the end of its turn: a turn longer than the bound (a thousand calls that
    arrive at once, say) has not used up any of it."""
    async with linked(Peer(each_s=0.05), timeout_s=2.0) as link:
        assert await link.ask(packed("PING")) == b"PONG"
        asked = asyncio.create_task(link.ask(packed("PING")))
        await asyncio.sleep(0)
        time.sleep(2.2)  # noqa: ASYNC251 - the rest of a long turn
        assert await asked == b"PONG"


async def test_connecting_is_not_late_where_this_process_was_busy(redis: Redis) -> None:
    """However far it has come: each of eight began a turn before the next one."""
    asked: list[asyncio.Task[bytes]] = []
    for _ in range(8):
        asked.append(asyncio.create_task(Link(redis, timeout_s=2.0).ask(packed("PING"))))
        await asyncio.sleep(0)
    time.sleep(2.2)  # noqa: ASYNC251 - somebody else's turn
    assert await asyncio.gather(*asked) == [b"PONG"] * 8


async def test_process_that_is_held_up_again_and_again_finds_nobody_absent() -> None:
    """Each time for longer than the whole bound, while an answer is on its way."""
    peer = Peer()
    async with linked(peer, timeout_s=1.0) as link:
        assert await link.ask(packed("PING")) == b"PONG"
        peer.may_answer.clear()
        asked = asyncio.create_task(link.ask(packed("PING")))
        for _ in range(4):
            await asyncio.sleep(0)
            time.sleep(1.1)  # noqa: ASYNC251 - the machine has other things to do
        peer.may_answer.set()
        assert await asked == b"PONG"


async def test_redis_that_answers_others_is_not_absent_for_the_last() -> None:
    """One word in a quarter of the bound: the last of twelve waits for three bounds."""
    async with linked(Peer(each_s=0.5), timeout_s=2.0) as link:
        asked = [link.ask(packed("PING")) for _ in range(12)]
        assert await asyncio.gather(*asked) == [b"PONG"] * 12


async def test_redis_that_is_gone_is_not_waited_for(own_server: RedisServer) -> None:
    """Its bound is an hour."""
    async with own_server.client() as redis:
        link = Link(redis, timeout_s=3600.0)
        await link.ask(packed("PING"))
        os.kill(own_server.pid, signal.SIGSTOP)
        asked = asyncio.create_task(link.ask(packed("PING")))
        await asyncio.sleep(0.1)
        own_server.kill9()
        with pytest.raises((RedisError, OSError)):
            await asyncio.wait_for(asked, 60)
        own_server.start()


async def test_many_at_once_wait_their_turn_and_none_is_late() -> None:
    """All together take longer than the bound, which is for each: an eighth of it, if nothing else
    runs."""
    peer = Peer(each_s=0.002)
    async with linked(peer, timeout_s=2.0) as link:
        asked = [link.ask(packed("PING", number)) for number in range(1_000)]
        assert await asyncio.gather(*asked) == [b"PONG"] * 1_000
    heard = [int(said) for said in peer.heard if said.isdigit()]
    assert heard == list(range(1_000)), "once each, and in the order they came"


async def test_questions_in_flight_are_bounded() -> None:
    peer = Peer()
    async with linked(peer, timeout_s=5) as link:
        await link.ask(packed("PING"))
        peer.may_answer.clear()
        asked = [asyncio.create_task(link.ask(packed("PING"))) for _ in range(3 * IN_FLIGHT_MAX)]
        await asyncio.sleep(0.05)
        peer.may_answer.set()
        assert await asyncio.gather(*asked) == [b"PONG"] * len(asked)
    assert peer.unanswered_most <= IN_FLIGHT_MAX


async def test_who_leaves_before_their_turn_is_never_asked_for() -> None:
    peer = Peer()
    async with linked(peer, timeout_s=5) as link:
        await link.ask(packed("PING"))
        peer.may_answer.clear()
        kept = [asyncio.create_task(link.ask(packed("PING"))) for _ in range(IN_FLIGHT_MAX)]
        left = asyncio.create_task(link.ask(packed("PING", "left")))
        last = asyncio.create_task(link.ask(packed("PING", "last")))
        await asyncio.sleep(0.05)
        left.cancel()
        await asyncio.sleep(0)
        peer.may_answer.set()
        await asyncio.gather(*kept, last)
    assert peer.heard[-1] == b"last"
    assert b"left" not in peer.heard


async def test_those_behind_a_redis_that_hangs_were_not_asked_and_know_it() -> None:
    """In bounded time, too: nobody waits for a second bound."""
    peer = Peer()
    async with linked(peer, timeout_s=0.3) as link:
        await link.ask(packed("PING"))
        peer.may_answer.clear()
        asked = [asyncio.create_task(link.ask(packed("PING"))) for _ in range(IN_FLIGHT_MAX + 5)]
        async with asyncio.timeout(30):
            replies = await asyncio.gather(*asked, return_exceptions=True)
        peer.may_answer.set()
    assert all(isinstance(reply, RedisTimeoutError) for reply in replies)
    assert [isinstance(reply, NotSent) for reply in replies] == [False] * IN_FLIGHT_MAX + [True] * 5


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 400), st.booleans()), min_size=1, max_size=6),
    st.integers(0, 2**31),
)
async def test_whoever_asks_and_leaves_each_answer_goes_to_its_question(
    bursts: list[tuple[int, bool]], seed: int
) -> None:
    """Bursts of any size, some of whose callers leave at once: nobody gets another's reply."""
    chance, number = Random(seed), 0
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        async with (
            await asyncio.start_unix_server(_echo, f"{folder}/e.sock"),
            Redis.from_url(f"unix://{folder}/e.sock", protocol=2, driver_info=None) as redis,
        ):
            link = Link(redis, timeout_s=10)
            for size, some_leave in bursts:
                asked = {}
                for _ in range(size):
                    number += 1
                    asked[number] = asyncio.create_task(link.ask(packed("ECHO", number)))
                await asyncio.sleep(0)
                if some_leave:
                    for name in chance.sample(sorted(asked), size // 2):
                        asked[name].cancel()
                for name, task in asked.items():
                    (reply,) = await asyncio.gather(task, return_exceptions=True)
                    assert reply == str(name).encode() or isinstance(reply, asyncio.CancelledError)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    parser = hiredis.Reader()
    while data := await reader.read(65536):
        parser.feed(data)
        while (command := parser.gets()) is not False:
            writer.write(b"+%b\r\n" % command[-1])
    writer.close()
