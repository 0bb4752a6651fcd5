"""A real Redis, and a database of tenants and catalog in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from billing.db.engine import open_store
from gateway.tenants.store import TenantStore
from migrations.run import migrate
from tests.redis_fixtures import redis, redis_server

__all__ = ["redis", "redis_server", "tenants"]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tenants") / "empty.db"
    migrate(f"sqlite:///{path}")
    return path


@pytest.fixture
def tenants(empty_database: Path, tmp_path: Path) -> Iterator[TenantStore]:
    path = tmp_path / "tenants.db"
    path.write_bytes(empty_database.read_bytes())
    store = open_store(f"sqlite:///{path}")
    yield TenantStore(store)
    store.close()
