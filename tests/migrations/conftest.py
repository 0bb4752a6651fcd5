"""An empty database of either kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_fixtures import Databases, postgres

__all__ = ["postgres"]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A test that takes it runs twice."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'a.db'}"
        return
    databases: Databases = request.getfixturevalue("postgres")
    with databases.copy_of("template0") as made:
        yield made
