"""A ledger process that starts before its database does."""

from __future__ import annotations

import asyncio
import secrets
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.exc import OperationalError, ProgrammingError

from billing.db.engine import open_store
from billing.db.reachable import LONGER_MAX, once_sql_is_there
from migrations.run import migrate
from tests.billing.test_process import environment, ledger
from tests.nursery import Part
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

WAITS = b"the ledger waits for SQL, asks again in "


def test_pauses_grow_to_a_bound_and_each_try_says_so_in_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    paused: list[float] = []

    def work() -> None:
        if len(paused) < 7:
            raise OperationalError("SELECT 1", None, Exception("refused\nIs the server running?"))

    once_sql_is_there(work, pause_s=0.5, sleep=paused.append)
    assert paused == [0.5, 1, 2, 4, 8, 8, 8] and max(paused) == LONGER_MAX * 0.5
    assert len(caplog.messages) == 7
    assert caplog.messages[0] == "the ledger waits for SQL, asks again in 0.5 s: refused"


def test_what_no_waiting_mends_is_raised_at_once(tmp_path: Path) -> None:
    def wrong() -> None:
        raise ProgrammingError("SELECT 1", None, Exception("no"))

    def without_tables() -> None:
        with open_store(f"sqlite:///{tmp_path / 'empty.db'}").read() as conn:
            conn.execute(text("SELECT * FROM transfer"))

    for work, raised in ((wrong, ProgrammingError), (without_tables, OperationalError)):
        with pytest.raises(raised):
            once_sql_is_there(work, pause_s=1, sleep=lambda _: pytest.fail("it waited"))


async def lines(process: Part, wanted: int) -> list[bytes]:
    found = []
    async with asyncio.timeout(60):
        while len(found) < wanted:
            found.append(await asyncio.to_thread(process.stderr.readline))
    return found


async def ready(process: Part) -> None:
    async with asyncio.timeout(60):
        assert await asyncio.to_thread(process.stdout.readline) == b"ready ledger\n"


@pytest.fixture
def whole(empty_ledger: Path, tmp_path: Path) -> Path:
    """A folder with a ledger, to be put in its place at once."""
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "ledger.db").write_bytes(empty_ledger.read_bytes())
    return folder


async def test_a_ledger_waits_for_its_file(
    redis_server: RedisServer, redis: Redis, whole: Path, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'there' / 'ledger.db'}")
    env = environment(redis_server, store, tmp_path)
    with ledger(env, with_stderr=True) as process:
        for line in await lines(process, 2):
            assert WAITS in line and b"unable to open" in line
        await asyncio.to_thread(whole.rename, tmp_path / "there")
        await ready(process)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One of its own: it is crashed."""
    with (
        tempfile.TemporaryDirectory(prefix="slp-", dir="/tmp") as folder,
        PostgresServer(Path(folder) / "pg", password=secrets.token_hex(8)) as server,
    ):
        yield server


async def test_a_ledger_waits_for_its_server(
    redis_server: RedisServer, redis: Redis, server: PostgresServer, tmp_path: Path
) -> None:
    migrate(server.url())
    env = environment(redis_server, open_store(server.url()), tmp_path)
    env["SLUICE_SQL_URL"] = server.url()  # as text an URL has no password
    server.crash()
    with ledger(env, with_stderr=True) as process:
        assert all(WAITS in line for line in await lines(process, 2))
        await asyncio.to_thread(server.start_again)
        await ready(process)


async def test_a_ledger_that_waits_is_ended_at_once_and_without_a_word(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'no' / 'ledger.db'}")
    env = environment(redis_server, store, tmp_path) | {"SLUICE_LEDGER__OUTAGE_PAUSE_S": "3600"}
    for number in (signal.SIGINT, signal.SIGTERM):
        with ledger(env, with_stderr=True) as process:
            await lines(process, 1)
            process.send_signal(number)
            said = await asyncio.to_thread(process.stderr.read)
            assert (process.wait(timeout=90), said) == (-number, b"")
