"""The writer of a cluster that is somebody else's: a job on its head.

Another launcher of the same code finds it by its name. Of other code it is replaced, and of other
Sluices left alone.
"""

import json
import os
import shlex
import urllib.request

import msgspec

from workers.existing.applications import owner, process_env
from workers.existing.dashboard import Dashboard, Unreachable
from workers.existing.package import own_package
from workers.settings import WorkersSettings
from workers.writer.writes import (
    HIGHEST_PATH,
    READY,
    SECRET_HEADER,
    WRITES_PATH,
    DeleteApp,
    Leader,
    Order,
)

SERVE_PORT = 8000
EVERY_INTERFACE = "0.0.0.0"
"""Where Serve's proxies listen if Serve does not run there yet. Its own default."""
TIMEOUT_S = 30.0
LEAVING = "leaving"
CODE_CHARS = 8


class WriterJob:
    def __init__(self, settings: WorkersSettings, dashboard: Dashboard) -> None:
        self._settings = settings
        self._dashboard = dashboard
        self._of_owner = f"sluice-writer-{owner(settings)}-"
        self._of_code = f"{self._of_owner}{own_package().digest[:CODE_CHARS]}-"
        self._id = ""
        self._url = ""

    def keep(self) -> str:
        """Have it run. Returns its address. Raises CannotJoin, Unreachable."""
        if self._url and self._dashboard.runs(self._id):
            return self._url
        self._url = ""
        running = self._dashboard.running_jobs(self._of_owner)
        same = [id for id in running if id.startswith(self._of_code)][:1]
        for id in running:
            if id not in same:  # two writers would not know of each other's leaders
                self._dashboard.end_job(id)
        self._id = same[0] if same else self._start()
        patience_s = self._settings.ray.start_timeout_s
        self._url = self._dashboard.line_of_job(self._id, READY, patience_s)
        return self._url

    def _start(self) -> str:
        options = {
            "proxy_host": EVERY_INTERFACE,
            "proxy_port": SERVE_PORT,
            "owner": owner(self._settings),
        }
        id = self._of_code + os.urandom(4).hex()  # noqa: TID251 composition root
        command = f"-m workers.writer {shlex.quote(json.dumps(options))}"
        self._dashboard.start_job(id, command, process_env(self._settings))
        return id

    def delete(self, app: str) -> None:
        """As one who leads after all controllers. Raises Unreachable."""
        highest = msgspec.json.decode(self._call(HIGHEST_PATH), type=Leader)
        leader = highest
        if highest.holder != LEAVING:
            leader = Leader(highest.epoch + 1, LEAVING)
        self._call(WRITES_PATH, msgspec.json.encode(Order(leader, DeleteApp(app))))

    def end(self) -> None:
        """End it, if it was ever to run."""
        if self._id:
            for id in self._dashboard.running_jobs(self._of_owner):
                self._dashboard.end_job(id)

    def _call(self, path: str, body: bytes | None = None) -> bytes:
        secret = self._settings.worker_secret.get_secret_value()
        request = urllib.request.Request(self._url + path, body, {SECRET_HEADER: secret})
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:
                content: bytes = reply.read()
                return content
        except OSError as away:
            raise Unreachable(f"writer: {away}") from away
