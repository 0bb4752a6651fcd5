"""Connections and transactions: one `write` per use case, committed at its end.

SQLite runs in WAL with synchronous=FULL, and every write transaction begins IMMEDIATE, so
that it never fails half-way for a lock. PostgreSQL needs none of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import InterfaceError, OperationalError

BUSY_TIMEOUT_MS = 10_000
CONNECT_TIMEOUT_S = 10
_READ_ONLY = "sluice_read_only"
_NORMAL = 1
"""Level of `PRAGMA synchronous` at which a commit syncs nothing, and a checkpoint does."""
OUTAGE = (OperationalError, InterfaceError)
"""What a database that is away, locked or full raises, whatever was asked."""


class Store:
    """The database, as transactions."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that commits at the end and rolls back on any exception."""
        with self.engine.begin() as conn:
            yield conn

    @contextmanager
    def write_unsynced(self) -> Iterator[Connection]:
        """The same for what can be made again: its commit does not wait for the disk. A power cut
        may take it back, unless a later transaction was committed that did wait."""
        with self.engine.connect() as conn, _unsynced(conn), conn.begin():
            if conn.dialect.name == "postgresql":
                conn.exec_driver_sql("SET LOCAL synchronous_commit = off")
            yield conn

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent snapshot; it takes no write lock."""
        options: dict[str, Any] = {_READ_ONLY: True}
        if self.engine.dialect.name == "postgresql":
            options["isolation_level"] = "REPEATABLE READ"
        with self.engine.connect().execution_options(**options) as conn, conn.begin():
            yield conn

    def close(self) -> None:
        self.engine.dispose()


@contextmanager
def _unsynced(conn: Connection) -> Iterator[None]:
    """Have SQLite not sync the log of a transaction that begins within this."""
    if conn.dialect.name != "sqlite":
        yield
        return
    driver: Any = conn.connection.driver_connection
    (level,) = driver.execute("PRAGMA synchronous").fetchone()
    driver.execute(f"PRAGMA synchronous = {min(level, _NORMAL)}")
    try:
        yield
    finally:
        driver.execute(f"PRAGMA synchronous = {level}")


def look_up_by_index(conn: Connection) -> None:
    """Have PostgreSQL find rows by index for the rest of a transaction that names them by key. It
    knows little of young tables, and would read them through for every batch."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql("SET LOCAL enable_seqscan = off")


def walk_along_index(conn: Connection) -> None:
    """Have PostgreSQL walk along an index up to the limit, for the rest of a transaction. Where
    many conditions hold for nearly every row, it expects few rows, and would read and sort all."""
    if conn.dialect.name == "postgresql":
        for step in ("seqscan", "hashjoin", "mergejoin", "sort"):
            conn.exec_driver_sql(f"SET LOCAL enable_{step} = off")


def take_turns(conn: Connection, lock: int) -> None:
    """Have transactions with the same lock wait for each other. A transaction needs that if it
    reads what another one may be about to write. SQLite lets one transaction write at a time
    anyway."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({lock})")


def share_turns(conn: Connection, lock: int) -> None:
    """Have those wait that take turns by this lock, and wait for them, but not for each other."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock_shared({lock})")


def open_store(sql_url: str, *, connections_max: int | None = None) -> Store:
    """Connect lazily to `sqlite:///path` or `postgresql+psycopg://...`. `connections_max` bounds
    those to PostgreSQL, and with them how long each may take to open."""
    url = make_url(sql_url)
    if url.get_backend_name() != "sqlite":
        return Store(create_engine(url, pool_pre_ping=True, **_bounds(connections_max)))
    engine = create_engine(url, connect_args={"check_same_thread": False})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return Store(engine)


def _bounds(connections_max: int | None) -> dict[str, Any]:
    if connections_max is None:
        return {}
    connect = {"connect_timeout": CONNECT_TIMEOUT_S}
    return {"pool_size": connections_max, "max_overflow": 0, "connect_args": connect}


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin on its own
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(conn: Connection) -> None:
    read_only = conn.get_execution_options().get(_READ_ONLY, False)
    conn.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
