"""One request to an application in this process, without a server or a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def answer(
    app: Any,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    headers: Mapping[str, str],
    address: str = "127.0.0.1",
) -> Answer:
    path, _, query = target.partition("?")
    found = Answer()
    unread = [body]

    async def receive() -> dict[str, Any]:
        if not unread:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": unread.pop(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            found.status = message["status"]
            found.headers = {k.decode(): v.decode("latin-1") for k, v in message["headers"]}
        else:
            found.body += message.get("body", b"")

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
        "client": (address, 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    return found


async def ask(app: Any, method: str, target: str, body: bytes, key: str) -> tuple[int, Any]:
    """The status and the JSON of the answer."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    found = await answer(app, method, target, body, headers=headers)
    return found.status, found.json
