"""A small hub on loopback: so much of the Hugging Face API as its real client asks for.

It can break off in the middle of a file, as a network does.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves `folder` as the repository `name`; `breaks` is the name of a file that is cut.
    The SHA-256 of `large` files is told, as a hub tells it of those it keeps apart."""

    daemon_threads = True

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Asked)
        self.name = name
        self.folder = folder
        self.breaks: str | None = None
        self.large: tuple[str, ...] = ()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Asked(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, *, with_body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(f"{self.command} {path}")
        api = f"/api/models/{self.server.name}"
        files = f"/{self.server.name}/resolve/{COMMIT}/"
        if path in (api, f"{api}/revision/main", f"{api}/revision/{COMMIT}"):
            self._json(self._repository())
        elif path == f"{api}/tree/{COMMIT}":
            self._json(self._tree())
        elif path.startswith(files) and (file := path.removeprefix(files)) in self._names():
            self._file(file, with_body=with_body)
        else:
            self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    def _names(self) -> list[str]:
        found = [f for f in self.server.folder.rglob("*") if f.is_file()]
        return sorted(str(f.relative_to(self.server.folder)) for f in found)

    def _repository(self) -> dict[str, Any]:
        siblings = [{"rfilename": name} for name in self._names()]
        return {"id": self.server.name, "sha": COMMIT, "siblings": siblings, "private": False}

    def _tree(self) -> list[dict[str, Any]]:
        return [
            {
                "type": "file",
                "path": name,
                "size": (self.server.folder / name).stat().st_size,
                "oid": _etag(self.server.folder / name),
                **self._large(name),
            }
            for name in self._names()
        ]

    def _large(self, name: str) -> dict[str, Any]:
        if name not in self.server.large:
            return {}
        content = (self.server.folder / name).read_bytes()
        sha256 = hashlib.sha256(content).hexdigest()
        return {"lfs": {"oid": sha256, "size": len(content), "pointerSize": 134}}

    def _json(
        self, value: object, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, told in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, told)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content if self.command == "GET" else b"")

    def _file(self, name: str, *, with_body: bool) -> None:
        content = (self.server.folder / name).read_bytes()
        self.send_response(200)
        self.send_header("etag", f'"{_etag(self.server.folder / name)}"')
        self.send_header("x-repo-commit", COMMIT)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if not with_body:
            return
        if name == self.server.breaks:
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
            return
        self.wfile.write(content)


def _etag(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()


@contextmanager
def running_hub(name: str, folder: Path) -> Iterator[Hub]:
    hub = Hub(name, folder)
    thread = threading.Thread(target=hub.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()
