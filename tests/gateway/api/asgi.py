"""One request to an application in this process, without a server or a socket."""

from __future__ import annotations

import json
from typing import Any


async def ask(app: Any, method: str, target: str, body: bytes, key: str) -> tuple[int, Any]:
    """The status and the JSON of the answer."""
    path, _, query = target.partition("?")
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    answer = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(answer)
