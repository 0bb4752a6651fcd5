"""Brings a database to the newest revision; safe when several processes start at once.

The whole upgrade runs in one transaction that holds the write lock of the database from its
first statement, so the second process waits and then finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from billing.db.engine import Store, open_store, take_turns

ADVISORY_LOCK = 0x51_75_1C_E0


def migrate(sql_url: str) -> None:
    """Upgrade to the newest revision, creating what is missing."""
    store = open_store(sql_url)
    try:
        with rebuilding(store) as conn:
            command.upgrade(alembic_config(conn), "head")
    finally:
        store.close()


@contextmanager
def rebuilding(store: Store) -> Iterator[Connection]:
    """A transaction that may rebuild tables others refer to; raises BrokenReference, and changes
    nothing, if it leaves a row that refers to nothing.

    SQLite changes most tables by copying them, which foreign keys would forbid on the way; they can
    only be put off outside a transaction.
    """
    with store.engine.connect() as conn:
        is_sqlite = conn.dialect.name == "sqlite"
        if is_sqlite:
            _foreign_keys(conn, "OFF")
        try:
            with conn.begin():
                take_turns(conn, ADVISORY_LOCK)
                yield conn
                if is_sqlite and (row := conn.exec_driver_sql("PRAGMA foreign_key_check").first()):
                    raise BrokenReference(f"a row of {row[0]} refers to nothing in {row[2]}")
        finally:
            if is_sqlite:
                _foreign_keys(conn, "ON")


class BrokenReference(Exception):
    """A migration would leave a row that refers to one that is not there."""


def _foreign_keys(conn: Connection, state: str) -> None:
    driver = conn.connection.driver_connection
    assert driver is not None, "a connection that is open has a driver's"
    driver.execute(f"PRAGMA foreign_keys = {state}")


def alembic_config(conn: Connection) -> Config:
    """Alembic's settings with an open connection, independent of the working directory."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = conn
    return config
