"""A metadata server on loopback with the answers that clouds document. A test says what it has."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

TOKEN = "AQAEAF-token=="
AWS_ACTION = "/latest/meta-data/spot/instance-action"
AWS_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
GCP_PREEMPTED = "/computeMetadata/v1/instance/preempted"
GCP_MAINTENANCE = "/computeMetadata/v1/instance/maintenance-event"
AZURE_EVENTS = "/metadata/scheduledevents"
AZURE_NAME = "/metadata/instance/compute/name"


@dataclass
class MetadataServer:
    """`has` are answers by path, what is not there is a 404. Each provider's own rule on headers is
    kept, and a question for a change waits until something changes, or for its time."""

    port: int = 0
    has: dict[str, str] = field(default_factory=dict)
    status: int = 200
    token: str = TOKEN
    asked: list[str] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _etag: int = 1

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def say(self, **answers: str) -> None:
        """Have these, by the name of their path in this module."""
        with self._changed:
            self.has.update({globals()[name]: answer for name, answer in answers.items()})
            self._etag += 1
            self._changed.notify_all()

    def wait_for_change(self, last_etag: str, timeout_s: float) -> str:
        with self._changed:
            if last_etag == str(self._etag):
                self._changed.wait(timeout_s)
            return str(self._etag)


def _handler(server: MetadataServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *words: object) -> None:
            pass

        def do_PUT(self) -> None:
            is_right = (
                self.path == "/latest/api/token"
                and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
            )
            self._answer(200 if is_right else 400, server.token)

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            server.asked.append(parts.path)
            if server.status != 200:
                self._answer(server.status, "not now")
            elif (status := self._refusal(parts.path, query)) != 200:
                self._answer(status, "refused")
            else:
                etag = "1"
                if query.get("wait_for_change") == "true":
                    etag = server.wait_for_change(query["last_etag"], float(query["timeout_sec"]))
                text = server.has.get(parts.path)
                self._answer(404 if text is None else 200, text or "", etag)

        def _refusal(self, path: str, query: dict[str, str]) -> int:
            if path.startswith("/latest/"):
                return 200 if self.headers.get("X-aws-ec2-metadata-token") == server.token else 401
            if path.startswith("/computeMetadata/"):
                return 200 if self.headers.get("Metadata-Flavor") == "Google" else 403
            is_asked_well = self.headers.get("Metadata") == "true" and "api-version" in query
            return 200 if is_asked_well else 400

        def _answer(self, status: int, text: str, etag: str = "1") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.send_header("ETag", etag)
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextmanager
def metadata_server() -> Iterator[MetadataServer]:
    server = MetadataServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))  # type: ignore[arg-type]
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
