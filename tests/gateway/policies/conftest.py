"""A database of either kind, for what must hold in both."""

from collections.abc import Iterator

import pytest
from sqlalchemy.engine import make_url

from billing.db.engine import open_store
from gateway.tenants.store import TenantStore
from migrations.run import migrate
from tests.postgres_fixtures import Databases, postgres

__all__ = ["postgres"]


@pytest.fixture(scope="session")
def migrated(postgres: Databases) -> Iterator[str]:
    """The name of a database to copy."""
    with postgres.copy_of("template0") as url:
        migrate(url)
        yield str(make_url(url).database)


@pytest.fixture(params=["sqlite", "postgresql"])
def either(request: pytest.FixtureRequest) -> Iterator[TenantStore]:
    """A test that takes it runs twice."""
    if request.param == "sqlite":
        yield request.getfixturevalue("tenants")
        return
    databases: Databases = request.getfixturevalue("postgres")
    with databases.copy_of(request.getfixturevalue("migrated")) as url:
        store = open_store(url)
        yield TenantStore(store)
        store.close()
