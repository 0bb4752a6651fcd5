"""The database of a world, and how it may be harmed: locked, down, or its disk full."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

import psycopg

from tests.postgres_server import PostgresServer


class Database(Protocol):
    @property
    def url(self) -> str: ...

    def locked(self) -> AbstractAsyncContextManager[None]:
        """While the block runs nobody else may write."""
        ...

    def down(self) -> AbstractAsyncContextManager[None]:
        """While the block runs nobody is answered; what was committed is there afterwards."""
        ...

    async def fill(self, ledger_pid: int) -> None:
        """From now on nothing more that this process writes fits on the disk."""
        ...

    async def clear(self, ledger_pid: int) -> None: ...


class SqliteFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        connection = sqlite3.connect(
            self.path, timeout=20, isolation_level=None, check_same_thread=False
        )
        try:
            await asyncio.to_thread(_begin, connection)
            yield
        finally:
            connection.rollback()
            connection.close()

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """A file cannot be down; it can be one that is no database, for whoever opens it anew, and
        locked for those who have it open."""
        async with self.locked():
            yield

    async def fill(self, ledger_pid: int) -> None:
        resource.prlimit(ledger_pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    async def clear(self, ledger_pid: int) -> None:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        with suppress(ProcessLookupError):
            resource.prlimit(ledger_pid, resource.RLIMIT_FSIZE, unlimited)


class PostgresDatabase:
    def __init__(self, server: PostgresServer, url: str) -> None:
        self._server = server
        self.url = url

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        connection = await psycopg.AsyncConnection.connect(self.url.replace("+psycopg", ""))
        try:
            await connection.execute(
                "LOCK TABLE usage_event, transfer, account IN ACCESS EXCLUSIVE MODE"
            )
            yield
        finally:
            await connection.rollback()
            await connection.close()

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        self._server.crash()
        try:
            yield
        finally:
            self._server.start_again()

    def kill_a_backend(self) -> bool:
        """By kill -9, whereupon the server ends all others, recovers, and goes on."""
        for pid in self._server.backends(self.url.rpartition("/")[2].partition("?")[0])[:1]:
            os.kill(pid, signal.SIGKILL)
            return True
        return False

    async def fill(self, ledger_pid: int) -> None:
        """For the backends that are there; a new one has room again."""
        name = self.url.rpartition("/")[2].partition("?")[0]
        for pid in await asyncio.to_thread(self._server.backends, name):
            with suppress(ProcessLookupError):
                limits = (64 * 1024, resource.RLIM_INFINITY)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)

    async def clear(self, ledger_pid: int) -> None:
        """Backends that failed have ended; those that are left get their room back."""
        name = self.url.rpartition("/")[2].partition("?")[0]
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        for pid in await asyncio.to_thread(self._server.backends, name):
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)


def _begin(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN EXCLUSIVE")
