"""Ledgers for examples: one migrated file with prices, copied for each and never synced."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event

from billing.db.engine import Store, open_store
from billing.prices.book import PriceRate
from billing.prices.versions import put_into_force
from tests.empty_database import put_empty_database


@contextmanager
def priced(rates: Sequence[PriceRate]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        put_empty_database(path)
        store = open_store(f"sqlite:///{path}")
        put_into_force(store, rates, by="test", now_us=1, version_id="pv_1")
        store.close()
        yield path


@contextmanager
def fresh(template: Path) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(template.read_bytes())
        store = open_store(f"sqlite:///{path}")
        event.listen(store.engine, "connect", _without_fsync)
        yield store
        store.close()


def _without_fsync(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous = OFF")
