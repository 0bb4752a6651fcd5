"""A new SQLite database for tests, as the migrations leave it: they run once in each process."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from migrations.run import migrate


def put_empty_database(path: Path) -> None:
    """Where none is yet."""
    if not path.exists():
        path.write_bytes(_empty())


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        path = Path(folder) / "empty.db"
        migrate(f"sqlite:///{path}")
        return path.read_bytes()
