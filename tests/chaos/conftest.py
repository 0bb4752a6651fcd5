"""Worlds over either database, and seeds: those that failed once are run ever after."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from billing.credits.credit import Category, Grant
from billing.credits.grants import give
from billing.db.engine import open_store
from billing.prices.versions import put_into_force
from migrations.run import migrate
from tests.chaos import plan, seeds
from tests.chaos.databases import Database, PostgresDatabase, SqliteFile
from tests.chaos.edge_process import rates
from tests.chaos.soak_world import GatewayWorld
from tests.chaos.world import World
from tests.postgres_fixtures import Databases, postgres
from tests.redis_server import RedisServer

__all__ = ["postgres"]

DATABASES = ("sqlite_database", "postgres_database")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and report.failed:
        seeds.keep_failed(item)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the two databases a short run takes one for each test, by its name; a long run both."""
    for item in items:
        params = getattr(item, "callspec", None) and item.callspec.params  # type: ignore[attr-defined]
        if params and "database" in params:
            name = getattr(item, "originalname", item.name)
            if params["database"] != DATABASES[crc32(name.encode()) % len(DATABASES)]:
                item.add_marker(pytest.mark.long)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", seeds.of(metafunc.function.__name__))


@pytest.fixture(scope="session")
def priced_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("priced") / "empty.db"
    _prepare(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def priced_postgres(postgres: Databases) -> str:
    """The name of a database to be copied."""
    postgres.server.psql("CREATE DATABASE chaos_empty OWNER sluice")
    _prepare(postgres.server.url("chaos_empty"))
    return "chaos_empty"


@pytest.fixture
def sqlite_database(priced_sqlite: Path, tmp_path: Path) -> SqliteFile:
    path = tmp_path / "sluice.db"
    shutil.copy(priced_sqlite, path)
    return SqliteFile(path)


@pytest.fixture
def postgres_database(postgres: Databases, priced_postgres: str) -> Iterator[PostgresDatabase]:
    with postgres.copy_of(priced_postgres) as url:
        yield PostgresDatabase(postgres.server, url)


@pytest.fixture(params=DATABASES, ids=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    """A test that takes it runs twice."""
    chosen: Database = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as started,
    ):
        yield started


@pytest.fixture
def world(database: Database, seed: int, tmp_path: Path, server: RedisServer) -> World:
    return World(tmp_path, server, database, seed)


@pytest.fixture
def gateway_world(
    database: Database, seed: int, tmp_path: Path, server: RedisServer
) -> GatewayWorld:
    return GatewayWorld(tmp_path, server, database, seed)


def _prepare(url: str) -> None:
    migrate(url)
    store = open_store(url)
    put_into_force(
        store, rates(), by="test", now_us=1, effective_from_us=2, version_id=plan.PRICE_VERSION
    )
    now_us = round(time.time() * 1e6)
    for planned in plan.GRANTS:
        grant = Grant(
            grant_id=planned.name,
            org=planned.org,
            category=Category.PAID if planned.paid else Category.PROMOTIONAL,
            amount_nanousd=planned.amount,
            effective_us=now_us,
            created_us=now_us,
            priority=planned.priority,
            models=planned.models,
        )
        give(store, grant, created_by="test", now_us=now_us)
    store.close()
