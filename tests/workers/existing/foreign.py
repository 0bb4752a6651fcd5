"""A Ray cluster that somebody else runs: a head without CPUs and a node of another address, each
started by `ray start`, with an application of its own on Serve.

Its processes are sessions of their own, which the test ends. It has a block of ports of its own.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.workers.cluster import PATIENCE_S, ROOT
from workers.ray.ports import RayPorts, claim_ports
from workers.ray.session import Session, end_session, session_of

TOKEN = "feedfacefeedfacefeedfacefeedface"
APP = {
    "name": "foreign",
    "route_prefix": "/",
    "import_path": "tests.workers.existing.foreign_app:app",
}
RAY = Path(sys.executable).parent / "ray"


class ForeignCluster:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions: list[Session] = []
        self._running: list[tuple[tuple[str, ...], subprocess.Popen[bytes]]] = []
        self._ports: RayPorts
        self._claim: socket.socket

    def start(self, **variables: str) -> None:
        self._ports, self._claim = claim_ports(20_000, 32_000)
        ports = self._ports
        self._variables = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": TOKEN,
            "RAY_SERVE_ENABLE_DIRECT_INGRESS": "1",
            "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
            "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(ports.ingress_first),
            "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(ports.ingress_last),
            "PYTHONPATH": str(ROOT),
        } | variables
        self._start_head()
        while not self._has_dashboard():
            end_session(self._sessions.pop(), grace_s=1.0)
            self._running.clear()
            self._start_head()

    def _start_head(self) -> None:
        ports = self._ports
        self._run(
            *("--head", f"--port={ports.gcs}", "--dashboard-host=127.0.0.1", "--num-cpus=0"),
            *(f"--dashboard-port={ports.dashboard}", f"--temp-dir={self._folder / 'ray'}"),
            f"--ray-client-server-port={ports.client_server}",
            f"--dashboard-agent-listen-port={ports.dashboard_agent}",
        )

    def _has_dashboard(self) -> bool:
        """Once it answers. Ray gives up a dashboard that takes a minute to start, and runs on
        without it."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.call("GET", "/api/version")
                return True
            except OSError:
                log = (self._folder / f"ray-{len(self._sessions) - 1}.log").read_text()
                if "Failed to start the dashboard" in log:
                    return False
                assert time.monotonic() < deadline_s, log
                time.sleep(0.1)

    def add_node(self, ip: str, zone: str) -> None:
        labels = f"ray.io/market-type=reserved,ray.io/availability-zone={zone}"
        address = f"--address=127.0.0.1:{self._ports.gcs}"
        self._run(
            *(address, f"--node-ip-address={ip}", "--num-cpus=2"),
            *("--dashboard-agent-listen-port=0", f"--labels={labels}"),
        )

    def await_nodes(self, count: int) -> None:
        """Until so many have registered. Ray gives up a node that takes half a minute to start, as
        on a busy machine, and whoever runs the cluster starts it again then."""
        deadline_s = time.monotonic() + PATIENCE_S
        while sum(not each["is_head_node"] for each in self._alive()) < count:
            assert time.monotonic() < deadline_s, "the nodes do not come"
            for options, process in [*self._running]:
                if process.poll() is not None:
                    self._running.remove((options, process))
                    self._run(*options)
            time.sleep(0.2)

    def _alive(self) -> list[dict[str, Any]]:
        rows = self.call("GET", "/api/v0/nodes?limit=1000")["data"]["result"]["result"]
        return [row for row in rows if row["state"] == "ALIVE"]

    def deploy_foreign_app(self) -> None:
        """Together with Serve, whose proxy it has."""
        document = {
            "proxy_location": "HeadOnly",
            "http_options": {"host": "127.0.0.1", "port": self._ports.serve_proxy},
            "applications": [APP],
        }
        self._put("/api/serve/applications/", document)
        deadline_s = time.monotonic() + PATIENCE_S
        while self.foreign_answer() != "foreign":
            assert time.monotonic() < deadline_s, "the foreign application does not answer"
            time.sleep(0.1)

    def foreign_answer(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._ports.serve_proxy}/") as reply:
                return str(reply.read().decode())
        except (urllib.error.HTTPError, OSError) as wrong:
            return str(wrong)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._ports.dashboard}"

    def applications(self) -> dict[str, Any]:
        details = self.call("GET", "/api/serve/applications/")
        applications: dict[str, Any] = details["applications"]
        return applications

    def call(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            self.address + path,
            None if body is None else json.dumps(body).encode(),
            {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
            content = reply.read()
        return json.loads(content) if content else None

    def stop(self) -> None:
        for session in reversed(self._sessions):
            end_session(session, grace_s=1.0)
        self._claim.close()

    def _run(self, *options: str) -> None:
        """`ray start` in a session of its own."""
        log = self._folder / f"ray-{len(self._sessions)}.log"
        usual = ("--block", "--disable-usage-stats", "--include-log-monitor=false")
        usual += ("--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=80000000")
        process = subprocess.Popen(
            [RAY, "start", *usual, *options],
            cwd=self._folder,
            env={k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "SLUICE_"))}
            | self._variables,
            stdin=subprocess.DEVNULL,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._sessions.append(session_of(process.pid))
        self._running.append((options, process))

    def _put(self, path: str, body: Any) -> None:
        """Until it is taken: the parts of a dashboard come one after another."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.call("PUT", path, body)
                return
            except OSError as wrong:
                assert time.monotonic() < deadline_s, wrong
                time.sleep(0.1)
