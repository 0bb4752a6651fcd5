"""A real Redis, and a ledger in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from billing.db.engine import Store, open_store
from billing.prices.book import Component, PriceRate
from billing.prices.versions import put_into_force
from migrations.run import migrate
from tests.billing.calls import ADMITTED_US
from tests.postgres_fixtures import Databases, postgres
from tests.redis_fixtures import redis, redis_server

__all__ = ["postgres", "redis", "redis_server"]

RATES = [
    PriceRate(model=model, tier=tier, component=component, nanousd_per_mtok=price)
    for model, factor in (("tale-large", 4), ("tale-small", 1))
    for tier in ("default", "priority")
    for component, price in (
        (Component.INPUT, 1_250_000 * factor),
        (Component.CACHED_INPUT, 125_000 * factor),
        (Component.OUTPUT, 5_000_001 * factor),
        (Component.REQUEST, 1_000_000),
    )
]


@pytest.fixture(scope="session")
def empty_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated database with one price version, to be copied."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    _prepare(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(sqlite_store: Store) -> Store:
    """A module whose tests run on both databases makes its own, of `either_store`."""
    return sqlite_store


@pytest.fixture
def sqlite_store(empty_ledger: Path, tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "ledger.db"
    path.write_bytes(empty_ledger.read_bytes())
    opened = open_store(f"sqlite:///{path}")
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def empty_postgres_ledger(postgres: Databases) -> str:
    """The same in PostgreSQL: the name of a database to be copied."""
    _prepare(postgres.server.url("sluice"))
    return "sluice"


@pytest.fixture
def postgres_store(postgres: Databases, empty_postgres_ledger: str) -> Iterator[Store]:
    with postgres.copy_of(empty_postgres_ledger) as url:
        opened = open_store(url)
        yield opened
        opened.close()


@pytest.fixture(params=["sqlite_store", "postgres_store"], ids=["sqlite", "postgresql"])
def either_store(request: pytest.FixtureRequest) -> Store:
    """A test that takes it runs twice."""
    chosen: Store = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Redis and SQL count is compared again without a pause: nothing is on its way."""
    for laws in ("billing.limits.laws", "billing.budgets.laws"):
        monkeypatch.setattr(f"{laws}.PAUSES_S", (0.0, 0.001))


def _prepare(url: str) -> None:
    migrate(url)
    store = open_store(url)
    begins_us = ADMITTED_US - 10**12
    put_into_force(
        store, RATES, by="test", now_us=1, effective_from_us=begins_us, version_id="pv_1"
    )
    store.close()
