"""The dashboard of a cluster that is as a test says, with its jobs ended at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import Any

from workers.existing.facts import ANSWER, ClusterFacts, NodeFacts, ServeFacts

TOKEN = "the-token"
FIT = ClusterFacts(
    serve=ServeFacts(direct_ingress=True),
    nodes=(NodeFacts("10.0.0.2", "3.11.2", version("ray"), has_cpus=True),),
)


class FakeDashboard(ThreadingHTTPServer):
    """`calls`: method and path of every call but a refused one."""

    def __init__(self, facts: ClusterFacts, ray: str, token: str | None) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.token = token
        self.writer = {"status": "RUNNING", "logs": "ready writer http://127.0.0.1:1\n"}
        self.calls: list[tuple[str, str]] = []
        self.answers: dict[str, Any] = {
            "/api/version": {"ray_version": ray, "session_name": "session_1"},
            "/api/jobs/": {"submission_id": "job_1"},
            "/api/jobs/job_1": {"status": "SUCCEEDED", "message": None},
            "/api/jobs/job_1/logs": {"logs": f"noise\n{ANSWER}{json.dumps(asdict(facts))}\n"},
            "/api/serve/applications/": {"applications": {}},
            "/api/v0/nodes?limit=1000": {"data": {"result": {"result": []}}},
        }

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: FakeDashboard

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        if self.server.token not in (None, token):
            self.send_error(403 if token else 401)
            return
        self.server.calls.append((self.command, self.path))
        answer = self.server.answers.get(self.path)
        if self.path.startswith("/api/jobs/sluice-writer-"):
            answer = self.server.writer
        if (self.command, self.path) == ("GET", "/api/jobs/"):
            answer = []
        if answer is None and not self.path.startswith("/api/packages/gcs/_ray_pkg_"):
            self.send_error(404)
            return
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def fake_dashboard(
    facts: ClusterFacts = FIT, *, ray: str = version("ray"), token: str | None = TOKEN
) -> Iterator[FakeDashboard]:
    dashboard = FakeDashboard(facts, ray, token)
    threading.Thread(target=dashboard.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield dashboard
    finally:
        dashboard.shutdown()
        dashboard.server_close()
