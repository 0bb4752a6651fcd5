"""Pytest fixtures over `PostgresServer`; a conftest imports what its folder needs."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer


@dataclass(frozen=True, slots=True)
class Databases:
    """Databases of one server, each as new as another one was when it was copied."""

    server: PostgresServer
    numbers: Iterator[int]

    @contextmanager
    def copy_of(self, template: str) -> Iterator[str]:
        """The URL of a copy, dropped afterwards. Nobody may be connected to the template."""
        name = f"sluice_{next(self.numbers)}"
        self.server.psql(f"CREATE DATABASE {name} OWNER sluice TEMPLATE {template}")
        try:
            yield self.server.url(name)
        finally:
            self.server.psql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    """One server for all tests of a worker; `template0` is an empty database to copy."""
    with (
        tempfile.TemporaryDirectory(prefix="slp-") as folder,
        PostgresServer(Path(folder) / "pg", password=secrets.token_hex(8)) as server,
    ):
        yield Databases(server, count(1))
