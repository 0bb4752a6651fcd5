"""Pytest fixtures over `PostgresServer`; a conftest imports what its folder needs."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres_server import PostgresServer


@dataclass
class Databases:
    """Databases of one server, each as new as another one was when it was copied."""

    server: PostgresServer
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _connection: psycopg.Connection[Any] | None = None
    """Of the superuser. It stays: `psql` and a backend for it take longer than a copy."""

    def __enter__(self) -> Databases:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._connection is not None:
            self._connection.close()

    @contextmanager
    def copy_of(self, template: str) -> Iterator[str]:
        """The URL of a copy, dropped afterwards. Nobody may be connected to the template."""
        name = f"sluice_{next(self.numbers)}"
        self._execute(f"CREATE DATABASE {name} OWNER sluice TEMPLATE {template} STRATEGY FILE_COPY")
        try:
            yield self.server.url(name)
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        """On a new connection too, for a test may have ended the server that had this one."""
        if self._connection is not None:
            try:
                self._connection.execute(statement)
                return
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
        self._connection = psycopg.connect(self.server.superuser_url, autocommit=True)
        self._connection.execute(statement)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    """One server for all tests of a worker; `template0` is an empty database to copy."""
    with (
        tempfile.TemporaryDirectory(prefix="slp-") as folder,
        PostgresServer(Path(folder) / "pg", password=secrets.token_hex(8)) as server,
        Databases(server) as databases,
    ):
        yield databases
