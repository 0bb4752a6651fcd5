"""A new SQLite database for tests, as the migrations leave it: they run once in each process."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from billing.db.engine import open_store
from gateway.catalog.bootstrap import bootstrap
from gateway.settings import Settings
from gateway.tenants.store import TenantStore
from migrations.run import migrate

SETTINGS_MAX = 16
"""Of so many kinds what a gateway makes of them is remembered."""


def put_empty_database(path: Path) -> None:
    """Where none is yet."""
    if not path.exists():
        path.write_bytes(_empty())


def put_started_database(path: Path, settings: Settings, now_us: int) -> None:
    """Where none is yet: as a gateway of such settings has left it. To fill an empty one takes that
    gateway half of its start."""
    if not path.exists():
        path.write_bytes(_started(Started.of(settings, now_us)))


@dataclass(frozen=True)
class Started:
    """Equal where the first start of a gateway writes the same."""

    told: str
    settings: Settings = field(compare=False)
    now_us: int = field(compare=False)

    @classmethod
    def of(cls, settings: Settings, now_us: int) -> Started:
        named = {"models", "variants", "pools", "bootstrap", "api_key"}
        return cls(settings.model_dump_json(include=named), settings, now_us)


@lru_cache(SETTINGS_MAX)
def _started(by: Started) -> bytes:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        path = Path(folder) / "started.db"
        put_empty_database(path)
        store = open_store(f"sqlite:///{path}")
        bootstrap(TenantStore(store), by.settings, by.now_us)
        store.close()
        return path.read_bytes()


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        path = Path(folder) / "empty.db"
        migrate(f"sqlite:///{path}")
        return path.read_bytes()
