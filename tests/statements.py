"""What SQLAlchemy compiles of a statement is kept for all engines of a process: each test opens a
ledger of its own, and compiling took half of what a test of a ledger costs."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import LRUCache

MOST = 2_000


class Statements(LRUCache[Any, Any]):
    """By the kind of database, where an engine's own cache goes by its dialect, which each engine
    has for itself. All databases of one kind have one version here."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_of_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_of_kind(key), compiled)


def _of_kind(key: Any) -> tuple[Any, ...]:
    dialect, *statement = key
    return (type(dialect), *statement)


def pytest_configure() -> None:
    statements = Statements(MOST)

    def share(connection: Connection) -> None:
        connection.execution_options(compiled_cache=statements)

    event.listen(Engine, "engine_connect", share)
