"""Brings a database to the newest revision; safe when several processes start at once.

The whole upgrade runs in one transaction that holds the write lock of the database from its
first statement, so the second process waits and then finds nothing to do.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from billing.store.engine import open_store

ADVISORY_LOCK = 0x51_75_1C_E0


def migrate(sql_url: str) -> None:
    """Upgrade to the newest revision, creating what is missing."""
    store = open_store(sql_url)
    try:
        with store.write() as conn:
            _lock(conn)
            command.upgrade(alembic_config(conn), "head")
    finally:
        store.close()


def alembic_config(conn: Connection) -> Config:
    """Alembic's settings with an open connection, independent of the working directory."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = conn
    return config


def _lock(conn: Connection) -> None:
    """SQLite's BEGIN IMMEDIATE has locked already."""
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
