"""Files over HTTP on loopback, as stores and hubs give them: with ranges, and with whatever goes
wrong on the way."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

Check = Callable[[str, Mapping[str, str]], int]
"""(target, headers) -> 0 where it is allowed, else the status to refuse with."""


@dataclass(slots=True)
class FileServer:
    """`files` by path. `cuts`: after how many bytes the next answers break off. `statuses`: what
    the next requests are refused with. `redirects`: paths that are elsewhere. `gates`: paths whose
    answer stops in the middle until its event is set."""

    files: dict[str, bytes]
    check: Check = lambda target, headers: 0
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    redirects: dict[str, str] = field(default_factory=dict)
    gates: dict[str, threading.Event] = field(default_factory=dict)
    halfway: threading.Event = field(default_factory=threading.Event)
    ranges: bool = True
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    sent: int = 0
    url: str = ""

    def asked(self, suffix: str) -> list[str | None]:
        """The ranges of all requests for a file."""
        return [range for path, range in self.requests if path.endswith(suffix)]


@contextmanager
def served(server: FileServer) -> Iterator[FileServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            headers = {name.lower(): value for name, value in self.headers.items()}
            server.requests.append((path, headers.get("range")))
            if status := server.check(self.path, headers):
                return self._refuse(status)
            if server.statuses:
                return self._refuse(server.statuses.pop(0))
            if path in server.redirects:
                self.send_response(302)
                self.send_header("location", server.redirects[path])
                self.send_header("content-length", "0")
                self.end_headers()
                return
            if path not in server.files:
                return self._refuse(404)
            self._send(path, server.files[path], headers.get("range"))

        def _refuse(self, status: int) -> None:
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def _send(self, path: str, content: bytes, range: str | None) -> None:
            start = 0
            if range is not None and server.ranges:
                start = int(range.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    return self._refuse(416)
                self.send_response(206)
                words = f"bytes {start}-{len(content) - 1}/{len(content)}"
                self.send_header("content-range", words)
            else:
                self.send_response(200)
            body = content[start:]
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            cut = server.cuts.pop(0) if server.cuts else None
            if gate := server.gates.get(path):
                self._write(body[: len(body) // 2])
                server.halfway.set()
                gate.wait()
                body = body[len(body) // 2 :]
            self._write(body if cut is None else body[:cut])
            if cut is not None and cut < len(body):
                self.close_connection = True

        def _write(self, body: bytes) -> None:
            try:
                self.wfile.write(body)
                self.wfile.flush()
                server.sent += len(body)
            except OSError:
                self.close_connection = True

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        for gate in server.gates.values():
            gate.set()
        http.shutdown()
        thread.join()
        http.server_close()
